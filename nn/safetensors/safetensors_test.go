package safetensors

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"
)

// What Join writes Split reads. Packages nn/net and nn/pattern test damaged files.
func TestJoinSplit(t *testing.T) {
	metadata := map[string]string{"b": "2", "a": "{}"}
	tensors := []Tensor{
		{"words", "I16", []int{2, 2}, []byte{1, 0, 2, 0, 3, 0, 4, 0}},
		{"bytes", "I8", []int{3}, []byte{7, 8, 9}},
		{"halves", "BF16", []int{2}, []byte{0x80, 0x3f, 0, 0xc0}},
		{"sums", "I32", []int{1}, []byte{1, 2, 3, 4}},
	}
	file := Join(metadata, tensors)
	slices.Reverse(tensors)
	if !slices.Equal(file, Join(metadata, tensors)) {
		t.Error("the order of the tensors changes the file")
	}
	gotMetadata, sections, err := Split(file, "I16", "I8", "BF16", "I32")
	if err != nil || !maps.Equal(gotMetadata, metadata) || len(sections) != len(tensors) {
		t.Fatalf("%v, %d tensors, %v", gotMetadata, len(sections), err)
	}
	for _, s := range sections {
		i := slices.IndexFunc(tensors, func(t Tensor) bool { return t.Name == s.Name })
		if want := tensors[i]; s.Dtype != want.Dtype || !slices.Equal(s.Shape, want.Shape) || !slices.Equal(s.Data, want.Data) {
			t.Errorf("%+v, want %+v", s, want)
		}
		if s.Name == "halves" && !slices.Equal(s.Float32s(), []float32{1, -2}) {
			t.Errorf("values %v", s.Float32s())
		}
	}
	if _, _, err := Split(file, "I16", "I8", "I32"); err == nil || !strings.Contains(err.Error(), "want I16 or I8 or I32") {
		t.Errorf("a type that is not wanted: %v", err)
	}
}

// A shape whose number of elements does not fit an int is refused, also where the wrapped number fits the data.
func TestShapes(t *testing.T) {
	for shape, want := range map[string]string{
		"[4294967296,4294967296]": "dimension 4294967296 is out of range",
		"[0]":                     "dimension 0 is out of range",
		"[-1,-1]":                 "dimension -1 is out of range",
	} {
		header := `{"w":{"dtype":"I8","shape":` + shape + `,"data_offsets":[0,0]}}`
		file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
		if _, _, err := Split(file, "I8"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", shape, err, want)
		}
	}
}
