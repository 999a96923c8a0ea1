package pattern

import (
	"slices"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// slowRows is the definition in doc.go, cell by cell.
func slowRows(p game.Position) (rows []int32) {
	b := board
	stone := func(c, r int) game.Bits { return game.Bits{Lo: 1 << b.Index(c, r)} }
	has := func(set game.Bits, c, r int) bool { return !set.And(stone(c, r)).IsZero() }
	height := func(c int) (h int) {
		for h < 6 && has(p.All, c, h) {
			h++
		}
		return h
	}
	first := int32(0)
	add := func(pattern, size int) {
		rows = append(rows, first+int32(pattern))
		first += int32(size)
	}
	along := func(c, r, dc, dr int) {
		pattern, size := 0, 1
		for ; c < 7 && r >= 0 && r < 6; c, r = c+dc, r+dr {
			cell := 0
			switch {
			case has(p.Own, c, r):
				cell = 1
			case has(p.All, c, r):
				cell = 2
			case height(c) == r:
				cell = 3
			}
			pattern, size = pattern+cell*size, size*4
		}
		if size >= 4*4*4*4 {
			add(pattern, size)
		}
	}
	for r := range 6 {
		along(0, r, 1, 0)
	}
	for r := 5; r > 0; r-- {
		along(0, r, 1, 1)
	}
	for c := range 7 {
		along(c, 0, 1, 1)
	}
	for r := range 5 {
		along(0, r, 1, -1)
	}
	for c := range 7 {
		along(c, 5, 1, -1)
	}
	for c := range 7 {
		pattern := 0
		for r := range 6 {
			if has(p.All, c, r) {
				pattern += 1 << r
			}
			if has(p.Own, c, r) {
				pattern += 1 << r
			}
		}
		add(pattern, 128)
	}
	for c := range 7 {
		pattern, size := 0, 0
		for h := range 7 {
			if h < height(c) {
				pattern += 1 << (2 * (6 - h))
			}
			size += 1 << (2 * (6 - h))
		}
		for i, r := 0, height(c); r < 6; i, r = i+1, r+1 {
			if b.Won(p.Own.Or(stone(c, r))) {
				pattern += 1 << (2 * i)
			}
			if b.Won(p.Other().Or(stone(c, r))) {
				pattern += 2 << (2 * i)
			}
		}
		add(pattern, size)
	}
	add(p.Plies(), 43)
	return rows
}

func TestRows(t *testing.T) {
	r := gametest.Rand(5)
	positions := gametest.Positions(r, board, 3000, false)
	positions[0] = game.Position{}
	filled := [Each]map[int32]bool{}
	for _, p := range positions {
		if board.Result(p) != game.Ongoing {
			continue
		}
		got := AppendRows([]int32{-1}, p)[1:]
		if want := slowRows(p); !slices.Equal(got, want) {
			t.Fatalf("%+v has rows\n%v, want\n%v", p, got, want)
		}
		if len(got) != Each || len(groups) != Each+1 {
			t.Fatalf("%d rows of %d groups, want %d", len(got), len(groups)-1, Each)
		}
		for g, row := range got {
			if row < groups[g] || row >= groups[g+1] {
				t.Fatalf("row %d is not in group %d, %d to %d", row, g, groups[g], groups[g+1])
			}
			if filled[g] == nil {
				filled[g] = map[int32]bool{}
			}
			filled[g][row] = true
		}
	}
	for g, rows := range filled {
		if len(rows) < 20 {
			t.Errorf("only %d rows of group %d were tested", len(rows), g)
		}
	}
}
