"""Manifests: strict to read, and what is written recreates what was declared."""

from __future__ import annotations

import pytest

from apps_runtime.manifest import ManifestError, Place, parse, render

WHOLE = """
apiVersion: miabi.io/v1
kind: Application
metadata: {name: inference, labels: {team: vision}}
spec:
  image: registry.example.com/acme/inference
  tag: "1.4.0"
  command: ["serve", "--port=8000"]
  ports: [{container: 8000, publish: true}]
  env: {MODEL: llama, HF_TOKEN: "..."}
  secretEnv: [HF_TOKEN]
  mounts: [{volume: models, path: /models}]
  resources: {cpu: "4", memory: 16Gi, gpu: 1, gpuKind: nvidia}
---
apiVersion: miabi.io/v1
kind: Volume
metadata: {name: models}
"""


def error(text: str) -> str:
    with pytest.raises(ManifestError) as refused:
        parse(text)
    return str(refused.value)


def app(spec: str) -> str:
    return f"apiVersion: miabi.io/v1\nkind: Application\nmetadata: {{name: web}}\nspec:\n{spec}"


def test_documents_come_in_the_order_in_which_they_can_be_applied():
    assert [(document.kind, document.name) for document in parse(WHOLE)] == [
        ("Volume", "models"),
        ("Application", "inference"),
    ]


def test_fields_have_the_names_of_the_api():
    fields = parse(WHOLE)[1].fields
    assert fields["labels"] == {"team": "vision"}
    assert (fields["cpu"], fields["memory"], fields["gpu"], fields["gpu_kind"]) == ("4", "16Gi", 1, "nvidia")
    assert fields["secret_env"] == ["HF_TOKEN"]
    assert fields["mounts"] == [{"volume": "models", "path": "/models"}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (app("  imgae: x"), "line 5: spec.imgae is not known"),
        (app("  image: x\n  resources: {gpus: 1}"), "line 6: spec.resources.gpus is not known"),
        (app("  image: x\n  mounts: [{hostPath: /, path: /x}]"), "line 6: spec.mounts[0].hostPath is not known"),
        (app("  image: x\n  privileged: true"), "line 6: spec.privileged is not known"),
        (app("  image: x\n  image: y"), "line 6: spec.image stands here twice"),
        (app("  image: x\n  env: {A: b, A: c}"), "line 6: spec.env.A stands here twice"),
        (app("  image: x") + "\nstatus: {}", "line 6: status is not known"),
        ("kind: Application\nmetadata: {name: a}", "apiVersion is missing"),
        ("apiVersion: v1\nkind: Application\nmetadata: {name: a}", "line 1: apiVersion is 'v1'"),
        ("apiVersion: miabi.io/v1\nkind: Pod\nmetadata: {name: a}", "line 2: kind is 'Pod'"),
        ("apiVersion: miabi.io/v1\nkind: Application\nmetadata: {name: a}", "spec is missing"),
        ("- a", "line 1: the document is no mapping"),
        ("", "no document"),
        ("a: [", "line 1"),
        ("a: &x [1]\nb: *x", "line 2: YAML aliases are not allowed"),
        (app("  image: x") + "\n---\n" + app("  image: y"), "was declared in line"),
        ("!!python/object/apply:os.system ['id']", "line 1: the YAML tag !!python/object/apply:os.system"),
        (app("  image: !!python/name:os.system"), "line 5: the YAML tag !!python/name:os.system is not allowed"),
        (app("  image: x\n  mounts: {a: b}"), "line 6: spec.mounts is no list"),
        (app("  image: x\n  mounts: [{? [a] : b}]"), "line 6: a key is no text"),
        (app("  image: x\n  env: {? [a] : b}"), "line 6: a key is no text"),
        (app("  image: x").replace("web", "~"), "line 3: metadata.name is no text"),
        (app("  image: x").replace("web", "[web]"), "line 3: metadata.name is no text"),
        ("\n---\n".join(app("  image: x").replace("web", f"web-{n}") for n in range(101)), "at most 100 documents"),
        ("a" * (256 * 1024 + 1), "at most 256 KiB"),
        ("[" * 5000, ""),
    ],
)
def test_what_is_wrong_is_named_with_path_and_line(text, words):
    assert words in error(text)


def test_an_alias_bomb_is_refused_before_it_unfolds():
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert "aliases are not allowed" in error(bomb)


def test_a_field_knows_where_it_stands():
    spec = "  image: x\n  mounts:\n    - volume: data\n      readOnly: yes\n  resources:\n    cpu: lots"
    document = parse(app(spec))[0]
    assert document.place_of("cpu") == Place("spec.resources.cpu", 10)
    assert document.place_of("mounts.0.read_only") == Place("spec.mounts[0].readOnly", 8)
    assert document.place_of("mounts.0.path") == Place("spec.mounts[0]", 7)
    assert document.place_of("name") == Place("metadata.name", 3)


def test_a_field_that_is_not_there_is_told_at_its_document():
    assert parse(app("  image: x"))[0].place_of("command") == Place("command", 1)


def test_what_is_rendered_reads_back_the_same():
    declared = dict(parse(WHOLE)[1].fields)
    labels = declared.pop("labels")
    again = parse(render("inference", labels, declared))[0]
    assert again.fields == declared | {"labels": labels}


def test_defaults_are_not_rendered():
    text = render("web", {}, {"image": "x", "tag": "", "gpu": 0, "ports": [], "replicas": 1, "runtime": "container"})
    assert text == "apiVersion: miabi.io/v1\nkind: Application\nmetadata:\n  name: web\nspec:\n  image: x\n"
