package pattern

import (
	"bytes"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// FuzzParse: no input makes the parser panic. What it accepts is written back as a file of the same network.
//
//	go test ./nn/pattern -run '^$' -fuzz FuzzParse -fuzztime 1m -fuzzminimizetime 10x
func FuzzParse(f *testing.F) {
	n := random(f)
	clear(n.Weights.Table[100*n.Weights.Lanes:]) // files keep the rows that are not 0, so this one is small
	for _, change := range []func(){
		func() {},
		func() { n.Metadata["trained"] = "never" },
		func() { n.Weights.Table[5] = 1000 }, // too large for a byte
	} {
		change()
		file, err := n.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	f.Add([]byte("no file"))
	f.Fuzz(func(t *testing.T, file []byte) {
		n, err := Parse(file)
		if err != nil {
			return
		}
		first := gametest.Must(n.Marshal())(t)
		again := gametest.Must(Parse(first))(t)
		if second, err := again.Marshal(); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("written and read again it is another network: %v", err)
		}
	})
}
