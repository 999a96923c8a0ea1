package net

import (
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// Ranges travel in the file, and wrong ones are refused when it is read.
func TestRanges(t *testing.T) {
	n := mustNew(t, Config{2, 3, 4, 5}, 1)
	if r, err := n.Ranges(); r != nil || err != nil {
		t.Errorf("ranges of a new network: %v, %v", r, err)
	}
	n.SetRanges([][]float32{{1, 0.1, 3e-5}, {4, 5, 1e30}})
	read := gametest.Must(Parse(mustMarshal(t, n)))(t)
	if r, err := read.Ranges(); err != nil || len(r) != 2 || r[0][1] != 0.1 || r[0][2] != 3e-5 || r[1][2] != 1e30 {
		t.Errorf("ranges became %v, %v", r, err)
	}
	if grown, err := read.Grow(Config{3, 3, 4, 5}, 1); err != nil || grown.Metadata[RangesKey] != "" {
		t.Errorf("a grown network has ranges (%v)", err)
	}
	for text, want := range map[string]string{
		`[[1,2,3]]`:              "metadata evald.ranges: 1 blocks, want 2",
		`[[1,2,3],[1,2]]`:        "metadata evald.ranges: block 1 has 2 channels, want 3",
		`[[1,2,3],[1,0,2]]`:      "metadata evald.ranges: block 1 channel 1 is 0, want 1e-30 to 1e30",
		`[[1,2,3],[1,-1,2]]`:     "metadata evald.ranges: block 1 channel 1 is -1, want 1e-30 to 1e30",
		`[[1,2,3],[1,1e31,2]]`:   "metadata evald.ranges: block 1 channel 1 is 1e+31, want",
		`[[1,2,3],[1,1e99,2]]`:   "metadata evald.ranges: json: cannot unmarshal number 1e99",
		`[[1,2,3],[1,"NaN",2]]`:  "metadata evald.ranges: json: cannot unmarshal string",
		`[[1,2,3],[1,2,3]] more`: "metadata evald.ranges: invalid character",
		``:                       "metadata evald.ranges: unexpected end",
	} {
		n.Metadata[RangesKey] = text
		if _, err := Parse(mustMarshal(t, n)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ranges %q: error %v, want %q", text, err, want)
		}
	}
}
