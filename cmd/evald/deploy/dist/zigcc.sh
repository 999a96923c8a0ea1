#!/bin/sh
# zigcc.sh PYTHON TARGET ARGUMENTS compiles C with Zig. It leaves out the folders of this machine's own headers and libraries, which
# gorgonia.org/cu names: they are of another C library than the target's.
python=$1 target=$2
shift 2
for argument; do
	shift
	case $argument in
	-I/usr/include | -L/usr/lib/*) ;;
	*) set -- "$@" "$argument" ;;
	esac
done
exec "$python" -m ziglang cc -target "$target" "$@"
