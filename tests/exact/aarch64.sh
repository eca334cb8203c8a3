#!/usr/bin/env bash
# Make DIR/python: CPython for 64-bit Arm under user-mode emulation, with that architecture's wheels (300 MB, half a minute):
#   tests/exact/aarch64.sh DIR [requirement ...]
#   PYTHONPATH=. QEMU_CPU=neoverse-n1 DIR/python -m tests.exact.digests
# For Debian 12 and 13, as root. Nothing is installed on the host but qemu-user. Of its CPUs cortex-a72 (the default here) and
# neoverse-n1 are fast; a64fx has SVE, and slow products; "max" raises false floating-point warnings in NumPy.
set -euo pipefail

dir=$(realpath -m "$1")
shift
[[ $# -gt 0 ]] || { echo "usage: $0 DIR requirement ..." >&2; exit 2; }
stamp=$(printf '%s\n' 1 "$dir" "$@" | sha256sum | cut -c1-16)
[[ $(cat "$dir/stamp" 2>/dev/null || true) != "$stamp" ]] || exit 0

. /etc/os-release
case ${ID:-}-${VERSION_ID:-} in
  debian-12) version=3.11 libraries="libssl3 libreadline8" ;;
  debian-13) version=3.13 libraries="libssl3t64 libreadline8t64" ;;
  *) echo "this is ${PRETTY_NAME:-an unknown system}; Debian 12 or 13 is needed" >&2; exit 1 ;;
esac
command -v qemu-aarch64 >/dev/null || { apt-get update -qq; apt-get install -y -qq qemu-user; } >&2

# Debian's packages of the other architecture, unpacked beside one another; no state of the host's apt is touched.
rm -rf "$dir"/{lists,cache,debs,root,wheels,stamp,python}
site=$dir/root/usr/local/lib/python$version/dist-packages
mkdir -p "$dir"/{lists/partial,cache/archives/partial,debs,wheels} "$site"
arm=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State::Lists=$dir/lists" -o "Dir::Cache=$dir/cache")
apt-get "${arm[@]}" update -qq >&2
# shellcheck disable=SC2086 # a list of words
(cd "$dir/debs" && apt-get "${arm[@]}" download -qq libc6 libgcc-s1 libstdc++6 libgomp1 zlib1g libexpat1 libffi8 \
  $libraries liblzma5 libbz2-1.0 libsqlite3-0 libuuid1 libncursesw6 libtinfo6 \
  "python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib" 2>/dev/null)
for package in "$dir"/debs/*.deb; do dpkg -x "$package" "$dir/root"; done
[[ -e $dir/root/lib ]] || ln -s usr/lib "$dir/root/lib"

platforms=()
for tag in manylinux_2_28 manylinux_2_27 manylinux_2_26 manylinux2014; do platforms+=(--platform "${tag}_aarch64"); done
python3 -m pip -q download --only-binary=:all: --python-version "$version" --implementation cp "${platforms[@]}" \
  -d "$dir/wheels" "$@" >&2
for wheel in "$dir"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$site"; done

cat >"$dir/python" <<EOF
#!/usr/bin/env bash
export QEMU_CPU=\${QEMU_CPU:-cortex-a72}
exec qemu-aarch64 -L $dir/root -0 $dir/python $dir/root/usr/bin/python$version "\$@"
EOF
chmod +x "$dir/python"
rm -rf "$dir"/{lists,cache,debs,wheels}
"$dir/python" -c 'import platform, numpy; print(platform.machine(), numpy.__version__)' >&2
echo "$stamp" >"$dir/stamp"
