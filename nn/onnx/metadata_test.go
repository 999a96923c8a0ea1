package onnx_test

import (
	"bytes"
	"maps"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/onnx"
)

// A key of the metadata gets another value, also twice, and everything else of the file stays.
func TestWithMetadata(t *testing.T) {
	n := gametest.Must(net.NewScrambled(gametest.Must(net.ParseConfig("1x2/1/1"))(t), 1))(t)
	n.Metadata = map[string]string{"evald.name": "mine", "note": "some text"}
	file := gametest.Must(onnx.Marshal(n, "mine", onnx.Options{}))(t)
	want := maps.Clone(gametest.Must(onnx.Read(file))(t).Metadata)
	for _, value := range []string{"another text", "", "a third"} {
		file = gametest.Must(onnx.WithMetadata(file, "note", value))(t)
		want["note"] = value
		if got := gametest.Must(onnx.Read(file))(t).Metadata; !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	back := gametest.Must(onnx.WithMetadata(file, "note", "some text"))(t)
	if again := gametest.Must(onnx.WithMetadata(back, "note", "some text"))(t); !bytes.Equal(back, again) || !onnx.Is(back) {
		t.Error("the same value once more changes the file")
	}
	if _, err := onnx.WithMetadata(file[:len(file)-1], "note", ""); err == nil {
		t.Error("a damaged file has no error")
	}
}
