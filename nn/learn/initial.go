package learn

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/nn/open"
)

// beginning is the number that stands for the network with which the run began (Config.Init).
const beginning = -1

// BeginWith makes a run begin with a network, given as the content of its file, in place of random weights. That network plays the first
// generation's games. The training of the first generation starts from its weights, and the result is promoted if it beats this network.
// Config.Network becomes the network's shape, to which blocks may be added (net.Network.Grow).
func (c *Config) BeginWith(network []byte) error {
	n, err := open.Parse(network)
	if err == nil {
		err = n.Becomes(n.Config(), c.Seed)
	}
	if err != nil {
		return err
	}
	c.Init, c.Initial, c.Network = sum(network), network, n.Config()
	c.FirstGames, c.FirstFactor = 0, 0
	return nil
}

func sum(file []byte) string {
	s := sha256.Sum256(file)
	return hex.EncodeToString(s[:])
}

// checkInitial returns an error if the initial network cannot become one of the run's shape.
func (c Config) checkInitial() error {
	if c.Initial == nil {
		return nil
	}
	if sum(c.Initial) != c.Init {
		return fmt.Errorf("the network has the SHA-256 %s, want %s", sum(c.Initial), c.Init)
	}
	n, err := open.Parse(c.Initial)
	if err != nil {
		return err
	}
	return n.Becomes(c.Network, c.Seed)
}

// keepInitial copies the initial network into the run's folder, so that resuming the run does not need the original file.
func (r *Run) keepInitial() error {
	if r.Config.Init == "" {
		return nil
	}
	path := r.promoted(beginning)
	there, err := os.ReadFile(path)
	switch {
	case err == nil && sum(there) == r.Config.Init:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case r.Config.Initial == nil:
		return fmt.Errorf("%s: is not the network that the run began with, whose SHA-256 is %s: give that network again with --init", path, r.Config.Init)
	}
	if err := os.MkdirAll(r.path("networks"), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, r.Config.Initial)
}
