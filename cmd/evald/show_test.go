package main

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

func TestShow(t *testing.T) {
	if out, want := must(t, "", "show", "4x3x3:1223"), " .  .  .  . \n .  X  .  . \n X  O (O) . \n 1  2  3  4 \n4x3x3:1223, X to move\n"; out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	if out := must(t, "", "show", "-"); !strings.HasSuffix(out, "7x6x4:-, X to move\n") {
		t.Error(out)
	}
	if out := must(t, "", "show", `{"board":[0,0,0,0,1,2],"rows":2,"columns":3,"inarow":2,"mark":1}`); !strings.HasSuffix(out, "3x2x2, 2 stones, X to move\n") {
		t.Error(out)
	}
	path := filepath.Join(t.TempDir(), "board.svg")
	must(t, "", "show", "4455", "-o", path, "--numbers")
	if svg := string(gametest.Must(os.ReadFile(path))(t)); svg != must(t, "", "show", "7x6x4:4455", "--format", "svg", "--numbers") || svg == must(t, "", "show", "4455", "--format", "svg") || !strings.HasPrefix(svg, "<svg ") {
		t.Error(svg)
	}
	path = filepath.Join(t.TempDir(), "board.PNG")
	must(t, "", "show", "4455", "-o", path, "--size", "100")
	if m := gametest.Must(png.Decode(bytes.NewReader(gametest.Must(os.ReadFile(path))(t))))(t); m.Bounds().Dx() != 100 {
		t.Errorf("%v", m.Bounds())
	}
	refuses(t, exitUsage, `move 2 is "8"`, "", "show", "48")
	refuses(t, exitUsage, "--size 9: must be 64 to 1024", "", "show", "4", "--size", "9")
}
