package main

import (
	"cmp"
	"fmt"
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/alecthomas/units"

	"github.com/evald/evald/engine/short"
)

// memory is a number of bytes, written as 512MiB, 2GiB or 500MB.
type memory uint64

// leastMemory is the minimum memory of the service and of proofs, in bytes, without a network. The program itself takes a quarter of it.
const leastMemory = 128 << 20

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *memory) UnmarshalText(text []byte) error {
	n, err := units.ParseStrictBytes(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%s: must be a size such as 512MiB or 2GiB", short.Quote(string(text)))
	}
	*m = memory(n)
	return nil
}

func (m memory) String() string { return fmt.Sprintf("%dMiB", uint64(m)>>20) }

// containerMemory returns the memory limit of the program's control group, and so of its container, in bytes; 0 is no limit.
func containerMemory() uint64 {
	if n, err := memlimit.FromCgroup(); err == nil && n < math.MaxInt64 {
		return n
	}
	return 0
}

// machineMemory returns the memory that this program can use, in bytes; 0 if unknown.
func machineMemory() uint64 {
	all, err := memlimit.FromSystem()
	if err != nil {
		return 0
	}
	if n := containerMemory(); n > 0 {
		all = min(all, n)
	}
	return all
}

// ownMemory returns the default of --memory: three quarters of the container's memory or, without a container, half of the machine's.
func ownMemory() memory {
	all := machineMemory()
	if n := containerMemory(); n > 0 && n <= all {
		return memory(n / 4 * 3)
	}
	return memory(cmp.Or(all/2, 1<<30))
}
