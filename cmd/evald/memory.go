package main

import (
	"cmp"
	"fmt"
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/alecthomas/units"

	"github.com/evald/evald/engine/short"
)

// memory is a number of bytes. People write it as 512MiB, 2GiB or 500MB.
type memory uint64

// leastMemory is the least that the service and proofs work with, in bytes, without a network. The program takes a quarter of it.
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

// containerMemory is how many bytes the program's control group may have, which is how containers are bounded; 0 is no bound.
func containerMemory() uint64 {
	if n, err := memlimit.FromCgroup(); err == nil && n < math.MaxInt64 {
		return n
	}
	return 0
}

// machineMemory is how many bytes of memory there are for this program; 0 if that is not known.
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

// ownMemory is what a program may take if it shares its machine with others: three quarters of its container's memory, or half
// of the machine's if no container bounds it.
func ownMemory() memory {
	all := machineMemory()
	if n := containerMemory(); n > 0 && n <= all {
		return memory(n / 4 * 3)
	}
	return memory(cmp.Or(all/2, 1<<30))
}
