package learn_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/learn"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/train"
)

// random is the file of a network of random weights.
func random(t testing.TB, shape net.Config) []byte {
	n := gametest.Must(net.NewSymmetric(shape, 7))(t)
	return gametest.Must(n.Marshal())(t)
}

// The network that a run begins with plays the first games and the first gate. If a network learned something it is promoted; if it
// learned nothing it is not, and the best network stays the one that the run began with.
func TestBeginsWithNetwork(t *testing.T) {
	network := random(t, net.Config{Blocks: 1, Channels: 16, HeadChannels: 8, Hidden: 16})
	for _, run := range []struct {
		lr       float64
		promoted bool
	}{{1e-9, false}, {0.02, true}} {
		c, dir := tiny(t), t.TempDir()
		gametest.OK(t, c.BeginWith(network))
		c.Rules, c.Labels, c.LR, c.Games, c.GateVisits = "5x4x4", learn.Solver, run.lr, 300, 2
		gametest.OK(t, learnBy(t.Context(), onGorgonia, dir, c, 1, func(string) {}))
		g := generations(t, dir)[0]
		if g.Player != "init" || g.Games != 300 || g.Gate == nil || g.Gate.Against != "init" || g.Promoted != run.promoted {
			t.Errorf("rate %g: %d games by %s, gate %+v, promoted %t", run.lr, g.Games, g.Player, g.Gate, g.Promoted)
		}
		best := gametest.Must(os.ReadFile(filepath.Join(dir, "best.safetensors")))(t)
		if bytes.Equal(best, network) == run.promoted {
			t.Errorf("rate %g: the best network is the one that the run began with: %t", run.lr, !run.promoted)
		}
	}
}

// The network that a run begins with is checked, and its copy in the run's folder is made again if it is missing or damaged.
func TestInitialErrors(t *testing.T) {
	small := net.Config{Blocks: 1, Channels: 8, HeadChannels: 4, Hidden: 8}
	network := random(t, small)
	good := tiny(t)
	gametest.OK(t, good.BeginWith(network))
	if good.Network != "1x8/4/8" {
		t.Errorf("the shape is %s", good.Network)
	}
	dir := t.TempDir()
	open := func(change func(*learn.Config)) error {
		c := good
		change(&c)
		run, err := learn.Open(dir, c, onCPU, train.Compute{Threads: 1}, nil)
		if err == nil {
			run.Close()
		}
		return err
	}
	without := func(c *learn.Config) { c.Initial = nil }
	same := func(*learn.Config) {}
	refused := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error with %q: %v", what, want, err)
		}
	}
	refused("no network", open(without), "init.safetensors: is not the network that the run began with")
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err == nil {
		t.Error("a run without its network was begun")
	}
	gametest.OK(t, open(same))
	gametest.OK(t, open(without))
	copied := filepath.Join(dir, "networks", "init.safetensors")
	gametest.OK(t, os.WriteFile(copied, network[:len(network)-1], 0o644))
	refused("damaged", open(without), "init.safetensors: is not the network that the run began with")
	gametest.OK(t, open(same))
	if text := gametest.Must(os.ReadFile(copied))(t); !bytes.Equal(text, network) {
		t.Error("the copy is not made again")
	}
	refused("wider", open(func(c *learn.Config) { c.Network = "1x16/4/8" }), "init: network 1x8/4/8 cannot become 1x16/4/8")
	refused("tables", open(func(c *learn.Config) { c.Rules, c.Network = "7x6x4", "pattern64x16x16" }), "init: network 1x8/4/8 cannot become pattern64x16x16")
	refused("another file", open(func(c *learn.Config) {
		c.Initial = random(t, net.Config{Blocks: 2, Channels: 8, HeadChannels: 4, Hidden: 8})
	}), "init: the network has the SHA-256")
	refused("another network", open(func(c *learn.Config) {
		gametest.OK(t, c.BeginWith(random(t, net.Config{Blocks: 1, Channels: 8, HeadChannels: 4, Hidden: 16})))
	}), "config.json: the run has network")
	if err := good.BeginWith([]byte("no network")); err == nil {
		t.Error("a file without a network is taken")
	}
}
