//go:build !amd64 && !arm64

package heuristic

import "github.com/evald/evald/engine/game"

var lanes = 0

func scoreGroups(*game.Position, int, uint64, *[4]uint, *[game.MaxBits + 1]float64, *float64) {
	panic("heuristic: no vector instructions here")
}
