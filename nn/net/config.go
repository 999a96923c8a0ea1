package net

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

// Sizes of outputs and planes, equal in every network.
const (
	PlaneCount = 5 // input planes
	WDLs       = 3 // win, draw, loss
	GameOvers  = game.GameOvers
)

// Default head sizes of ParseConfig.
const (
	DefaultHeadChannels = 32
	DefaultHidden       = 64
)

// Limits that keep a mistyped or forged configuration from using up all memory.
const (
	maxBlocks     = 256
	maxChannels   = 2048
	maxHidden     = 8192
	maxParameters = 1 << 27 // 512 MiB of float32
)

// Config is the shape of a network. The package documentation has the layers.
type Config struct {
	Blocks       int `json:"blocks"`        // B, residual blocks of two convolutions, 1..256
	Channels     int `json:"channels"`      // C, of the tower, 1..2048
	HeadChannels int `json:"head_channels"` // V, of each head, 1..2048
	Hidden       int `json:"hidden"`        // F, width of the value head's fully connected layer, 1..8192
}

// ParseConfig parses the format of String: "6x64" is 6 blocks of 64 channels with default heads; "2x16/8/16" sets 8 head channels
// and a hidden layer of 16.
func ParseConfig(s string) (Config, error) {
	c := Config{HeadChannels: DefaultHeadChannels, Hidden: DefaultHidden}
	tower, heads, custom := strings.Cut(s, "/")
	numbers, fields := strings.Split(tower, "x"), []*int{&c.Blocks, &c.Channels}
	if custom {
		numbers = append(numbers, strings.Split(heads, "/")...)
		fields = append(fields, &c.HeadChannels, &c.Hidden)
	}
	malformed := fmt.Errorf("network config %s: want blocks x channels, such as 6x64, or with the widths of the heads, such as 6x64/32/64", short.Quote(s))
	if strings.Count(tower, "x") != 1 || len(numbers) != len(fields) {
		return Config{}, malformed
	}
	for i, text := range numbers {
		n, err := strconv.Atoi(text)
		if err != nil || strconv.Itoa(n) != text {
			return Config{}, malformed
		}
		*fields[i] = n
	}
	return c, c.Validate()
}

// String returns "6x64" for 6 blocks of 64 channels, and appends the heads if they differ from the default: "2x16/8/16".
func (c Config) String() string {
	s := fmt.Sprintf("%dx%d", c.Blocks, c.Channels)
	if c.HeadChannels != DefaultHeadChannels || c.Hidden != DefaultHidden {
		s += fmt.Sprintf("/%d/%d", c.HeadChannels, c.Hidden)
	}
	return s
}

// Validate returns an error that names the field out of range, or nil.
func (c Config) Validate() error {
	for _, f := range [...]struct {
		name       string
		value, max int
	}{
		{"blocks", c.Blocks, maxBlocks},
		{"channels", c.Channels, maxChannels},
		{"head_channels", c.HeadChannels, maxChannels},
		{"hidden", c.Hidden, maxHidden},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("network config: %s is %d, must be 1 to %d", f.name, f.value, f.max)
		}
	}
	if n := c.Parameters(); n > maxParameters {
		return fmt.Errorf("network config: %s has %d parameters, must be at most %d", c, n, maxParameters)
	}
	return nil
}

// Parameters returns the number of weights and biases. The fields must be within their limits.
func (c Config) Parameters() (n int) {
	for _, s := range c.Specs() {
		n += s.Size()
	}
	return n
}

// Spec is the name and shape of one tensor of a network.
type Spec struct {
	Name  string `json:"name"`
	Shape []int  `json:"shape"`
}

// Size is the number of values.
func (s Spec) Size() int {
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// Specs lists every tensor of the network, from the input to the heads. c must be valid.
func (c Config) Specs() []Spec {
	specs := make([]Spec, 0, 14+4*c.Blocks)
	layer := func(name string, shape ...int) {
		specs = append(specs, Spec{name + ".weight", shape}, Spec{name + ".bias", shape[:1:1]})
	}
	layer("stem", c.Channels, PlaneCount, 3, 3)
	for i := range c.Blocks {
		layer(blockName(i)+".conv1", c.Channels, c.Channels, 3, 3)
		layer(blockName(i)+".conv2", c.Channels, c.Channels, 3, 3)
	}
	layer("value.conv", c.HeadChannels, c.Channels, 1, 1)
	layer("value.fc", c.Hidden, 2*c.HeadChannels)
	layer("value.wdl", WDLs, c.Hidden)
	layer("value.gameover", GameOvers, c.Hidden)
	layer("policy.conv", c.HeadChannels, c.Channels, 1, 1)
	layer("policy.logit", 1, c.HeadChannels, 1, 1)
	return specs
}

func blockName(i int) string { return "blocks." + strconv.Itoa(i) }
