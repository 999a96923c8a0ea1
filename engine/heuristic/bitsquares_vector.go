//go:build amd64 || arm64

package heuristic

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/evald/evald/engine/game"
)

// lanes is the number of positions that scoreGroups scores at once; 0 if the processor lacks the instructions.
var lanes = func() int {
	if runtime.GOARCH == "arm64" {
		return 2
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VPOPCNTDQ {
		return 8
	}
	return 0
}()

// scoreGroups requires own.Lo and all.Lo at these offsets.
var _ = [1]struct{}{}[unsafe.Sizeof(game.Position{})-32|unsafe.Offsetof(game.Position{}.All)-16|unsafe.Offsetof(game.Bits{}.Lo)]

// scoreGroups computes Bitsquares.Score, bit for bit, for groups of lanes positions of a 64-bit board with four in a row.
//
//go:noescape
func scoreGroups(ps *game.Position, groups int, full uint64, shifts *[4]uint, weight *[game.MaxBits + 1]float64, out *float64)
