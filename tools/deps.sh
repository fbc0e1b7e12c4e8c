#!/usr/bin/env bash
# Fills .deps/usr with the Debian packages the C++ parts need, without root.
#
# Always all of them, also those the system has: the folder can then be carried to a machine
# without network. Quick when already done. Names hold for Debian 12 and Ubuntu 24.04.
set -euo pipefail
cd "$(dirname "$0")/.."

# libfmt9 only because the CMake package of libfmt-dev insists that the library exists.
packages=(nlohmann-json3-dev libcli11-dev libfmt-dev libfmt9 libzstd-dev libxxhash-dev
          libgtest-dev librapidcheck-dev)
# Python.h of the system's Python, which python3-venv does not bring.
if [[ -x /usr/bin/python3 ]]; then
  version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  packages+=("libpython$version-dev")
fi
ready=.deps/ready
wanted="${packages[*]}"
if [[ -f $ready && $(<"$ready") == "$wanted" ]]; then exit 0; fi

if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
  echo "make deps: cannot unpack Debian packages here (no apt-get or dpkg)." >&2
  echo "Install these libraries with your system's package manager, then use PYTHON=... make:" >&2
  echo "  nlohmann-json >= 3.10, CLI11 >= 2.1, fmt >= 9, zstd, xxHash >= 0.8, GoogleTest," \
    "RapidCheck" >&2
  exit 1
fi

rm -rf .deps/usr .deps/packages
mkdir -p .deps/packages .deps/apt/lists/partial .deps/apt/cache/archives/partial
root=$PWD/.deps
apt=(apt-get -q -o APT::Sandbox::User= -o "Dir::Cache=$root/apt/cache")

download() { (cd .deps/packages && "${apt[@]}" "$@" download "${packages[@]}"); }

# Without package lists on the system we fetch our own, which needs no root either.
own_lists=(-o "Dir::State::Lists=$root/apt/lists")
if ! download 2>.deps/apt/first_try.log; then
  "${apt[@]}" "${own_lists[@]}" update >&2 || { cat .deps/apt/first_try.log >&2; exit 1; }
  download "${own_lists[@]}"
fi
for package in .deps/packages/*.deb; do dpkg -x "$package" .deps; done
rm -rf .deps/packages .deps/apt .deps/usr/share/doc .deps/usr/lib/python3* \
  .deps/usr/lib/*/libpython*.a .deps/usr/lib/*/libz.a
echo "$wanted" >"$ready"
