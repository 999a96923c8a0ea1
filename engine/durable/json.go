package durable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"regexp"
)

// Marshal writes a struct, which must have a field, as one line of JSON without a newline. The object's last field is a checksum of
// everything before it,
//
//	{"game":7,"points":0.5,"crc32":"5a698146"}
//
// here the CRC-32 (IEEE) of {"game":7,"points":0.5. Other programs can ignore that field.
func Marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(text[:len(text)-1], `,"crc32":"%08x"}`, crc32.ChecksumIEEE(text[:len(text)-1])), nil
}

// MarshalIndent writes a struct, which must have a field, as indented JSON with the checksum.
func MarshalIndent(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	text = text[:len(text)-2]
	return fmt.Appendf(text, ",\n  \"crc32\": \"%08x\"\n}\n", crc32.ChecksumIEEE(text)), nil
}

const sumName = "crc32"

// sumField matches a last field that may be the checksum, possibly with a damaged byte.
var sumField = regexp.MustCompile(`(?s),\s*"(.{5})":\s*"(.{8})"\s*\}\s*$`)

// checkedJSON compares the checksum and returns the JSON without it. An object without a checksum was written by another program, and is
// returned unchanged. A last field whose name differs from the checksum's in one byte counts as a damaged checksum.
func checkedJSON(text []byte) ([]byte, error) {
	at := sumField.FindSubmatchIndex(text)
	if at == nil {
		return text, nil
	}
	content, called, want := text[:at[0]], text[at[2]:at[3]], text[at[4]:at[5]]
	other := 0
	for i := range sumName {
		if called[i] != sumName[i] {
			other++
		}
	}
	if other > 1 {
		return text, nil
	}
	if got := fmt.Sprintf("%08x", crc32.ChecksumIEEE(content)); other == 1 || got != string(want) {
		return nil, fmt.Errorf("is damaged: its checksum is %s, but it states %q: %q", got, called, want)
	}
	return append(bytes.Clone(content), '}'), nil
}

// Unmarshal reads what Marshal and MarshalIndent write, as json.Unmarshal does.
func Unmarshal(text []byte, v any) error {
	content, err := checkedJSON(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, v)
}

// Lines decodes a text of whole lines, each as Unmarshal does. It ignores text after the last newline, because a kill has torn that line.
// Errors contain the line's number in the file, in which before lines precede the text.
func Lines[L any](text []byte, before int) (lines []L, err error) {
	for {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole {
			return lines, nil
		}
		var l L
		if err := Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", before+len(lines)+1, err)
		}
		lines, text = append(lines, l), rest
	}
}
