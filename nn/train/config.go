package train

import (
	"fmt"
	"math"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/net"
)

// Config is everything that determines a run's weights, except the data: the same Config and data give the same weights.
type Config struct {
	Task      string  `json:"task"`               // free text for readers; it has no effect
	Network   string  `json:"network"`            // net.ParseConfig, such as 6x64; or pattern128x64x32
	Init      string  `json:"init"`               // file name, without folder, of the initial weights; "" for a fresh network
	Rules     string  `json:"rules"`              // game.ParseMix, such as 7x6x4, or 5x4x4,7x6x4=2 for steps of two games
	Records   int64   `json:"records"`            // number of records, so that a resumed run has the same data
	QShare    float64 `json:"q_share"`            // see RecordOptions
	HeldOut   float64 `json:"held_out,omitempty"` // see RecordOptions
	TasteOf   string  `json:"taste_of,omitempty"` // checksum of the network whose taste is learned, see WithTaste; "" if none is
	Batch     int     `json:"batch"`              // examples per step
	Steps     int     `json:"steps"`              // number of steps of the whole run
	LR        float64 `json:"lr"`                 // learning rate after the warm-up
	Schedule  string  `json:"schedule"`           // Cosine
	Warmup    int     `json:"warmup"`             // steps over which the rate rises from 0
	Optimizer string  `json:"optimizer"`          // Muon or AdamW; Adam for networks of pattern tables
	L2        float64 `json:"l2"`                 // decoupled weight decay
	Clip      float64 `json:"clip"`               // maximum norm of the gradient over all parameters; 0 means no maximum
	EMA       float64 `json:"ema"`                // decay of the moving average of the weights; 0 means no moving average
	Seed      uint64  `json:"seed"`
	Weights   Weights `json:"weights"` // of the losses
}

// Values of Config.Schedule and Config.Optimizer. Config.Validate accepts all except Adam.
const (
	Cosine = "cosine"
	Muon   = "muon"
	AdamW  = "adamw"
	Adam   = "adam" // for networks of pattern tables, see package tables
)

// Bounds that keep a mistyped number from using up all memory or time.
const (
	maxBatch = 1 << 16
	maxSteps = 1 << 30
)

// ForTables returns the configuration for a network of pattern tables, which trains with Adam.
func (c Config) ForTables() Config {
	c.Optimizer, c.EMA, c.Clip, c.L2, c.Weights.GameOver = Adam, 0, 0, 0, 0
	return c
}

// Validate returns the network's shape and the games, or an error that names the field out of range.
func (c Config) Validate() (net.Config, game.Mix, error) {
	network, err := net.ParseConfig(c.Network)
	if err != nil {
		return network, nil, err
	}
	mix, err := c.Check()
	if err == nil && c.Optimizer != Muon && c.Optimizer != AdamW {
		err = fmt.Errorf("optimizer is %q, want %s or %s", c.Optimizer, Muon, AdamW)
	}
	return network, mix, err
}

// Check is Validate without Network and Optimizer, which other kinds of networks check themselves.
func (c Config) Check() (game.Mix, error) {
	mix, err := game.ParseMix(c.Rules)
	if err != nil {
		return nil, err
	}
	for _, f := range [...]struct {
		name             string
		value, low, high float64
	}{
		{"batch", float64(c.Batch), 1, maxBatch},
		{"steps", float64(c.Steps), 1, maxSteps},
		{"lr", c.LR, 1e-9, 10},
		{"warmup", float64(c.Warmup), 0, float64(c.Steps)},
		{"l2", c.L2, 0, 1},
		{"clip", c.Clip, 0, math.MaxFloat32},
		{"ema", c.EMA, 0, 0.999999},
		{"q share", c.QShare, 0, 1},
		{"share that is held out", c.HeldOut, 0, 1},
	} {
		if !(f.value >= f.low && f.value <= f.high) {
			return nil, fmt.Errorf("%s is %v, must be %v to %v", f.name, f.value, f.low, f.high)
		}
	}
	if c.Schedule != Cosine {
		return nil, fmt.Errorf("schedule is %q, want %s", c.Schedule, Cosine)
	}
	return mix, nil
}

// Rate returns the learning rate of a step, counted from 0. The rate rises linearly over Warmup steps, then falls to 0 along half a cosine.
func (c Config) Rate(step int) float64 {
	if step < c.Warmup {
		return c.LR * float64(step+1) / float64(c.Warmup+1)
	}
	done := float64(step-c.Warmup) / float64(max(1, c.Steps-c.Warmup))
	return c.LR * (1 + math.Cos(math.Pi*done)) / 2
}

// decay returns the decay of the moving average at a step. It is smaller in early steps, so that the average soon forgets the initial
// weights.
func (c Config) decay(step int) float64 {
	return min(c.EMA, float64(1+step)/float64(10+step))
}
