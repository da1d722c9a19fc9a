"""The text of an ``nvidia-smi`` for given cards: a script for any sh, with its answers inside."""

DRIVER = "550.54.15"

SCRIPT = """#!/bin/sh
{hang}
listing=
xml=
for word; do
    case "$word" in
        -L|--list-gpus) listing=yes ;;
        -q|--query) ;;
        -x|--xml-format) xml=yes ;;
        *) echo "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help."; exit 2 ;;
    esac
done
{none}
if [ -n "$listing" ]; then
cat <<'END'
{listing}
END
elif [ -n "$xml" ]; then
cat <<'END'
{xml}
END
else
    echo "NVIDIA-SMI {driver}  Driver Version: {driver}  CUDA Version: 12.4"
fi
"""


def script(cards: list, *, hangs: bool = False) -> str:
    return SCRIPT.format(
        hang="sleep 86400" if hangs else "",
        none="" if cards else "echo 'No devices were found'; exit 6",
        listing="\n".join(listing(cards)),
        xml=xml(cards),
        driver=DRIVER,
    )


def listing(cards: list):
    for index, card in enumerate(cards):
        yield f"GPU {index}: {card['model']} (UUID: {card['uuid']})"
        for number, instance in enumerate(card["mig"] or []):
            yield f"  MIG {instance['profile']:<12}Device {number:>2}: (UUID: {instance['uuid']})"


def xml(cards: list) -> str:
    return "\n".join(
        [
            '<?xml version="1.0" ?>',
            '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">',
            "<nvidia_smi_log>",
            "\t<timestamp>Mon Jan  5 10:00:00 2026</timestamp>",
            f"\t<driver_version>{DRIVER}</driver_version>",
            "\t<cuda_version>12.4</cuda_version>",
            f"\t<attached_gpus>{len(cards)}</attached_gpus>",
            *(gpu(card) for card in cards),
            "</nvidia_smi_log>",
        ]
    )


def gpu(card: dict) -> str:
    mode = "Enabled" if card["mig"] is not None else "Disabled"
    instances = "".join(mig_device(index, each) for index, each in enumerate(card["mig"] or []))
    return f"""\t<gpu id="{card["pci_bus_id"]}">
\t\t<product_name>{card["model"]}</product_name>
\t\t<product_brand>NVIDIA</product_brand>
\t\t<mig_mode>
\t\t\t<current_mig>{mode}</current_mig>
\t\t\t<pending_mig>{mode}</pending_mig>
\t\t</mig_mode>
\t\t<mig_devices>{instances or "None"}</mig_devices>
\t\t<uuid>{card["uuid"]}</uuid>
\t\t<minor_number>{card["minor"]}</minor_number>
\t\t<pci><pci_bus_id>{card["pci_bus_id"]}</pci_bus_id></pci>
\t\t<fb_memory_usage>{memory(card["memory_mib"])}</fb_memory_usage>
\t\t<utilization><gpu_util>0 %</gpu_util><memory_util>0 %</memory_util></utilization>
\t\t<temperature><gpu_temp>34 C</gpu_temp></temperature>
\t</gpu>"""


def memory(total: int) -> str:
    return f"<total>{total} MiB</total><reserved>0 MiB</reserved><used>0 MiB</used><free>{total} MiB</free>"


def mig_device(index: int, instance: dict) -> str:
    return f"""
\t\t\t<mig_device>
\t\t\t\t<index>{index}</index>
\t\t\t\t<gpu_instance_id>{instance["gpu_instance"]}</gpu_instance_id>
\t\t\t\t<compute_instance_id>0</compute_instance_id>
\t\t\t\t<fb_memory_usage>{memory(instance["memory_mib"])}</fb_memory_usage>
\t\t\t</mig_device>"""
