package net

import (
	"encoding/json"
	"fmt"
)

// RangesKey is the key of Ranges in Metadata; the value is JSON.
const RangesKey = "evald.ranges"

// Ranges returns the largest expected inputs of each block's first convolution, [block][channel], for backends that compute it with 8 bits.
// It returns nil if the Metadata contains none. The error describes invalid Metadata.
func (n *Network) Ranges() (ranges [][]float32, err error) {
	text, ok := n.Metadata[RangesKey]
	if !ok {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &ranges); err != nil {
		return nil, fmt.Errorf("metadata %s: %w", RangesKey, err)
	}
	if len(ranges) != n.config.Blocks {
		return nil, fmt.Errorf("metadata %s: %d blocks, want %d", RangesKey, len(ranges), n.config.Blocks)
	}
	for i, block := range ranges {
		if len(block) != n.config.Channels {
			return nil, fmt.Errorf("metadata %s: block %d has %d channels, want %d", RangesKey, i, len(block), n.config.Channels)
		}
		for c, r := range block {
			if !(r >= 1e-30 && r <= 1e30) { // then neither a step nor its inverse is subnormal or infinite
				return nil, fmt.Errorf("metadata %s: block %d channel %d is %v, want 1e-30 to 1e30", RangesKey, i, c, r)
			}
		}
	}
	return ranges, nil
}

// SetRanges stores Ranges, which must be finite, in the Metadata.
func (n *Network) SetRanges(ranges [][]float32) {
	text, err := json.Marshal(ranges)
	if err != nil {
		panic(err) // cannot happen: finite numbers always marshal
	}
	n.Metadata[RangesKey] = string(text)
}
