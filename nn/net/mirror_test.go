package net

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game/gametest"
)

// A symmetric network treats the mirrored board as it treats the board. If a width is odd, one channel is its own twin.
func TestSymmetric(t *testing.T) {
	for _, text := range []string{"2x8/4/6", "1x5/3/7", "3x1/1/1"} {
		c := gametest.Must(ParseConfig(text))(t)
		n := mustNew(t, c, 3)
		if n.Symmetric() {
			t.Errorf("%s: a random network is symmetric", text)
		}
		for _, s := range c.Specs() {
			values, mirror := n.Weight(s.Name).Float32s(), s.Mirror()
			for i, j := range mirror {
				if int(mirror[j]) != i {
					t.Fatalf("%s: %s: the mirror of %d is %d, and of that %d", text, s.Name, i, j, mirror[j])
				}
				values[max(i, int(j))] = values[min(i, int(j))]
			}
		}
		if !n.Symmetric() {
			t.Errorf("%s: the network is not symmetric when every value is its mirror's", text)
		}
		for _, b := range gametest.Boards() {
			pos := gametest.Positions(gametest.Rand(9), b, 5, true)
			want := forward(n, NewPlanes(b, pos))
			for i, p := range pos {
				pos[i] = b.Mirror(p)
			}
			got := forward(n, NewPlanes(b, pos))
			near(t, "wdl", got.WDL, want.WDL, 1e-5)
			near(t, "gameover", got.GameOver, want.GameOver, 1e-5)
			near(t, "cells", got.Cells, flipped(want.Cells, b.Columns()), 1e-5)
		}
	}
}

// A fresh symmetric network has the weights of the fresh one, the first of each pair.
func TestNewSymmetric(t *testing.T) {
	c := Config{Blocks: 2, Channels: 6, HeadChannels: 3, Hidden: 5}
	plain := gametest.Must(New(c, 8))(t)
	n := gametest.Must(NewSymmetric(c, 8))(t)
	if !n.Symmetric() || plain.Symmetric() {
		t.Errorf("NewSymmetric is symmetric: %t, New: %t", n.Symmetric(), plain.Symmetric())
	}
	for _, s := range c.Specs() {
		values, drawn := n.Weight(s.Name).Float32s(), plain.Weight(s.Name).Float32s()
		for i, j := range s.Mirror() {
			if want := drawn[min(i, int(j))]; values[i] != want {
				t.Fatalf("%s: value %d is %v, want %v", s.Name, i, values[i], want)
			}
		}
	}
	if _, err := NewSymmetric(Config{}, 1); err == nil {
		t.Error("a network without blocks is accepted")
	}
}

// A grown network computes the same as before, has the requested number of blocks, and stays symmetric if it was.
func TestGrow(t *testing.T) {
	b := gametest.Boards()[0]
	planes := NewPlanes(b, gametest.Positions(gametest.Rand(9), b, 5, true))
	small, large := Config{Blocks: 1, Channels: 6, HeadChannels: 3, Hidden: 5}, Config{Blocks: 3, Channels: 6, HeadChannels: 3, Hidden: 5}
	for name, fresh := range map[string]func(Config, uint64) (*Network, error){"plain": NewScrambled, "symmetric": NewSymmetric} {
		n := gametest.Must(fresh(small, 8))(t)
		n.Metadata["evald.name"] = name
		grown := gametest.Must(n.Grow(large, 9))(t)
		if grown.Config() != large || grown.Metadata["evald.name"] != name || grown.Symmetric() != (name == "symmetric") {
			t.Errorf("%s: grown is %v, metadata %v, symmetric %t", name, grown.Config(), grown.Metadata, grown.Symmetric())
		}
		want, got := forward(n, planes), forward(grown, planes)
		if diff := cmp.Diff(want.WDL, got.WDL); diff != "" {
			t.Errorf("%s: wdl (-small +grown):\n%s", name, diff)
		}
		if diff := cmp.Diff(want.Cells, got.Cells); diff != "" {
			t.Errorf("%s: cells (-small +grown):\n%s", name, diff)
		}
		if slices.Max(grown.Weight("blocks.2.conv1.weight").Float32s()) == 0 {
			t.Errorf("%s: the first half of a new block is zero too, so that no gradient reaches it", name)
		}
		grown.Weight("stem.weight").Float32s()[0]++
		if grown.Weight("stem.weight").Float32s()[0] == n.Weight("stem.weight").Float32s()[0] {
			t.Errorf("%s: the two networks share memory", name)
		}
		for _, other := range []Config{{Blocks: 3, Channels: 8, HeadChannels: 3, Hidden: 5}, {Blocks: 3, Channels: 6, HeadChannels: 3, Hidden: 6}, {}} {
			if _, err := n.Grow(other, 9); err == nil || !strings.Contains(err.Error(), other.String()) {
				t.Errorf("%s: grown into %v: error %v", name, other, err)
			}
		}
		if _, err := grown.Grow(small, 9); err == nil || !strings.Contains(err.Error(), "network 3x6/3/5 cannot become 1x6/3/5") {
			t.Errorf("%s: fewer blocks: error %v", name, err)
		}
	}
}
