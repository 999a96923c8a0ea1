package encoding

import (
	"fmt"

	"github.com/evald/evald/engine/game"
)

// ErrNone means that the metadata contains no description, and that evald did not write the network.
var ErrNone = fmt.Errorf("the file's metadata has no %s, and evald did not write the network: describe its inputs and outputs", MetadataKey)

// FromMetadata returns the description in a file's metadata_props, under MetadataKey. Networks that evald model export has written need no
// description there. For other networks without one, the error is ErrNone.
func FromMetadata(metadata map[string]string) (Description, error) {
	text, described := metadata[MetadataKey]
	switch {
	case described:
		d, err := Parse([]byte(text))
		if err != nil {
			return d, fmt.Errorf("metadata %s: %w", MetadataKey, err)
		}
		return d, nil
	case metadata["evald.kind"] == "pattern":
		return ofTables(), nil
	case metadata["evald.format"] == "1" && metadata["evald.config"] != "":
		return ofConvolutions(), nil
	}
	return Description{}, ErrNone
}

// ofConvolutions describes the files of onnx.Marshal.
func ofConvolutions() Description {
	return Description{
		Rules: Any, Input: "planes", Layout: NCHW, Planes: []string{"own", "other", "playable", "parity", "inarow"}, Rows: Top,
		Value:  Value{Output: "wdl", Kind: WDLLogits, For: Mover},
		Policy: Policy{Output: "cells", Kind: Logits, Actions: Cells},
	}
}

// ofTables describes the files of onnx.MarshalPattern.
func ofTables() Description {
	return Description{
		Rules: game.Connect4.String(), Input: "rows", Layout: Patterns, Rows: Top, Mask: "legal",
		Value:  Value{Output: "wdl", Kind: WDLLogits, For: Mover},
		Policy: Policy{Output: "moves", Kind: Logits, Actions: Columns},
	}
}
