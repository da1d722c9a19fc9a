#!/bin/sh
# Installs the Debian packages that hold the programs named, where one is missing.
# As root on Debian or its kin only; elsewhere it says what is missing and lets the caller go on.
#
#   scripts/system-packages.sh PROGRAM=PACKAGE...      e.g. redis-server=redis-server
set -eu

PATH="$PATH:/usr/sbin:/sbin:/usr/local/sbin"

present() {
    case "$1" in
        initdb) command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 ;;
        python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
        busybox-static) [ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1 ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

packages=
for pair; do
    present "${pair%%=*}" || packages="$packages ${pair#*=}"
done
[ -n "$packages" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Not installed here, and only root on Debian gets it by itself:$packages" >&2
    exit 0
fi

export DEBIAN_FRONTEND=noninteractive
# Their services are not wanted: the tests start private ones.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
apt-get update -q </dev/null
# shellcheck disable=SC2086 # one word for each package
apt-get install -q -y --no-install-recommends $packages </dev/null
