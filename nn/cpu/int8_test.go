package cpu

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/net"
)

// A channel's range is what one value in beyondRange exceeds, by all values of the reference. The first network is left as it is, and
// a network that has ranges already gets the same ones.
func TestInt8(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	n := network(t, "2x16/8/16", 3)
	before := gametest.Must(n.Marshal())(t)
	n.Metadata["evald.name"] = "mine"
	pos := gametest.Positions(gametest.Rand(9), board, 150, true)
	got := gametest.Must(Int8(t.Context(), n, board, pos))(t)
	values := map[string][][]float32{"stem": make([][]float32, 16), "blocks.0": make([][]float32, 16)}
	planes := make([]float32, net.PlanesSize(board, 1))
	for _, p := range pos {
		net.Planes(board, []game.Position{p}, planes)
		n.Trace(planes, 6, 7, func(layer string, x []float32) {
			for c := range values[layer] {
				values[layer][c] = append(values[layer][c], x[42*c:42*(c+1)]...)
			}
		})
	}
	ranges := gametest.Must(got.Ranges())(t)
	for i, layer := range []string{"stem", "blocks.0"} {
		for c, x := range values[layer] {
			slices.Sort(x)
			want := x[len(x)-1-len(x)/beyondRange]
			if r := ranges[i][c]; math.Abs(float64(r-max(want, leastRange))) > 1e-4*float64(r) {
				t.Errorf("block %d channel %d: range %v, want %v", i, c, r, want)
			}
		}
	}
	if got.Metadata["evald.name"] != "mine" || n.Metadata[net.RangesKey] != "" {
		t.Errorf("metadata of the copy %v, of the network %v", got.Metadata, n.Metadata)
	}
	delete(n.Metadata, "evald.name")
	if after, err := n.Marshal(); err != nil || !slices.Equal(after, before) {
		t.Errorf("the network has changed (%v)", err)
	}
	for _, s := range got.Config().Specs() {
		same := slices.Equal(got.Weight(s.Name).Float32s(), n.Weight(s.Name).Float32s())
		if rounded := s.Name == "blocks.0.conv1.weight" || s.Name == "blocks.1.conv1.weight"; same == rounded {
			t.Errorf("%s: unchanged: %v", s.Name, same)
		}
	}
	again := gametest.Must(Int8(t.Context(), got, board, pos[:1]))(t)
	if r, _ := again.Ranges(); slices.Equal(r[0], ranges[0]) {
		t.Error("ranges of one position are those of all")
	}
}

// A symmetric network stays symmetric.
func TestInt8Symmetric(t *testing.T) {
	for _, config := range []string{"2x16/8/16", "1x7/3/5"} {
		c := gametest.Must(net.ParseConfig(config))(t)
		n := gametest.Must(net.NewSymmetric(c, 4))(t)
		board := game.MustBoard(game.Connect4)
		got, err := Int8(t.Context(), n, board, gametest.Positions(gametest.Rand(2), board, 20, true))
		if err != nil || !got.Symmetric() {
			t.Errorf("%s: symmetric %v, error %v", config, err == nil && got.Symmetric(), err)
		}
	}
}

func TestInt8Cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	board := game.MustBoard(game.Connect4)
	_, err := Int8(ctx, network(t, "1x4", 1), board, make([]game.Position, 3))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want a cancelled context", err)
	}
}

// top keeps what sorting would.
func TestTop(t *testing.T) {
	r := gametest.Rand(5)
	for range 200 {
		kept, all := top{limit: 1 + r.IntN(9)}, []float32(nil)
		for range r.IntN(20) {
			var some []float32
			for range r.IntN(15) {
				some = append(some, float32(r.IntN(50)))
			}
			kept.add(some)
			all = append(all, some...)
		}
		slices.Sort(all)
		want := float32(0)
		if len(all) > 0 {
			want = all[max(len(all)-kept.limit, 0)]
		}
		if got := kept.last(); got != want {
			t.Fatalf("the last of the %s largest is %v, want %v", strconv.Itoa(kept.limit), got, want)
		}
	}
}
