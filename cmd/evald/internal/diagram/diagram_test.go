package diagram

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// of is the diagram of a position in evald's notation.
func of(t testing.TB, text string) *Diagram {
	t.Helper()
	return gametest.Must(Of(text))(t)
}

var golden = map[string]struct {
	position string
	numbers  bool
}{
	"start":    {"-", false},
	"opening":  {"4455", false},
	"won":      {"4151617", false},
	"numbers":  {"44444421256", true},
	"free":     {"3x3x3free:51298", true},
	"wide":     {"20x3x4:abakkf1", false},
	"lettered": {"35x2x4:z", false},
}

func TestSVG(t *testing.T) {
	for name, c := range golden {
		d := of(t, c.position)
		d.Numbers = c.numbers
		got := gametest.Must(d.SVG(DefaultSize))(t)
		path := filepath.Join("testdata", name+".svg")
		if *update {
			gametest.OK(t, os.WriteFile(path, got, 0o644))
		}
		if diff := cmp.Diff(string(gametest.Must(os.ReadFile(path))(t)), string(got)); diff != "" {
			t.Errorf("%s (-want +got; go test ./cmd/evald/internal/diagram -update writes it anew):\n%s", path, diff)
		}
	}
}

// The picture is XML, its title names the position, and its description has every stone.
func TestWords(t *testing.T) {
	for position, want := range map[string][2]string{
		"-":            {"7x6x4:-, Red to move", "The board is empty."},
		"44544":        {"7x6x4:44544, Yellow to move", "Column 4 from the bottom: red, yellow, yellow, red. Column 5 from the bottom: red."},
		"4151617":      {"7x6x4:4151617, Red wins", "Column 1 from the bottom: yellow, yellow, yellow. Column 4 from the bottom: red. Column 5 from the bottom: red. Column 6 from the bottom: red. Column 7 from the bottom: red."},
		"3x3x3free:51": {"3x3x3free:51, Red to move", "Column 1 from the bottom: empty, empty, yellow. Column 2 from the bottom: empty, red, empty. Column 3 from the bottom: empty, empty, empty."},
		"2x1x2free:12": {"2x1x2free:12, draw", "Column 1 from the bottom: red. Column 2 from the bottom: yellow."},
	} {
		d := of(t, position)
		if d.Title() != want[0] || d.Description() != want[1] {
			t.Errorf("%s: %q, %q", position, d.Title(), d.Description())
		}
		for decoder := xml.NewDecoder(bytes.NewReader(gametest.Must(d.SVG(100))(t))); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", position, err)
			}
		}
	}
	d := of(t, "4455")
	d.Moves = nil
	if want := "7x6x4, 4 stones, Red to move"; d.Title() != want {
		t.Errorf("without moves: %q, want %q", d.Title(), want)
	}
}

// rgb is a colour as the tests of pixels compare it.
func rgb(c uint32) color.NRGBA { return color.NRGBA{uint8(c >> 16), uint8(c >> 8), uint8(c), 0xff} }

// Each cell of a PNG has the colour of its stone, halfway between centre and edge, on random positions of all boards.
func TestPNG(t *testing.T) {
	for seed := range 20 {
		r, size := gametest.Rand(uint64(seed)), 1000
		if seed > 0 {
			size = 400
		}
		boards := gametest.Boards()
		b := boards[r.IntN(len(boards))]
		d := &Diagram{Board: b, Moves: []int{}}
		for range r.IntN(b.Cells() + 1) {
			if a := r.IntN(b.Actions()); b.Result(d.Position) == game.Ongoing && b.CanPlay(d.Position, a) {
				d.Moves, d.Position = append(d.Moves, a), b.Play(d.Position, a)
			}
		}
		m := gametest.Must(png.Decode(bytes.NewReader(gametest.Must(d.PNG(size))(t))))(t)
		if got := m.Bounds().Size(); max(got.X, got.Y) != size {
			t.Fatalf("%v: %v pixels", b.Rules(), got)
		}
		w, _ := d.size()
		scale := float64(m.Bounds().Dx()) / w
		for i := range b.Cells() {
			at := b.FlatIndex(i)
			column, row := b.ColumnRow(at)
			x, y := float64(frame+column*cell+cell/2), float64(frame+(b.Rows()-1-row)*cell+cell/2)
			want := rgb(hole)
			if side, ok := d.stone(at); ok {
				want = rgb([]uint32{red, yellow}[side])
			}
			got := color.NRGBAModel.Convert(m.At(int((x+8)*scale), int(y*scale)))
			if got != want {
				t.Fatalf("%s: cell %d is %v, want %v", d.Title(), i, got, want)
			}
		}
		if _, _, _, a := m.At(0, 0).RGBA(); a != 0 {
			t.Error("the corner is not transparent")
		}
	}
}

// The last stone has a dot, a winning line rings, and numbers replace the dot.
func TestMarks(t *testing.T) {
	at := func(d *Diagram, column, row int, dx float64) color.NRGBA {
		m := gametest.Must(d.Image(MaxSize))(t)
		w, h := d.size()
		scale := MaxSize / max(w, h)
		return m.NRGBAAt(int((float64(frame+column*cell+cell/2)+dx)*scale), int(float64(frame+(d.Board.Rows()-1-row)*cell+cell/2)*scale))
	}
	d := of(t, "4455")
	if at(d, 4, 1, 0) != rgb(onYellow) || at(d, 4, 0, 0) != rgb(red) {
		t.Error("the last move has no dot, or another one has")
	}
	d.Numbers = true // the number 4 has a gap where the dot was, and a ring around it
	if at(d, 4, 1, 14) != rgb(onYellow) || at(d, 3, 0, 0) != rgb(onRed) {
		t.Error("no ring around the last number, or no 1 on the first stone")
	}
	d = of(t, "4151617")
	for column, want := range []uint32{yellow, hole, hole, onRed, onRed, onRed, onRed} {
		if got := at(d, column, 0, 13); got != rgb(want) {
			t.Errorf("column %d: %v, want #%06x", column, got, want)
		}
	}
}

// All characters that names of columns and numbers have can be drawn, within their place.
func TestGlyphs(t *testing.T) {
	for _, c := range "0" + digits {
		strokes := write(string(c), 0, 0, 6, 0)
		if len(strokes) == 0 {
			t.Errorf("no glyph for %c", c)
		}
		for _, s := range strokes {
			for _, p := range s.(stroke).points {
				if math.Abs(p.x) > 2 || p.y < -3 || p.y > 5 {
					t.Errorf("%c: %v is outside its place", c, p)
				}
			}
		}
	}
}

// A shape's bounds contain the whole shape.
func TestBounds(t *testing.T) {
	for _, s := range []shape{rectangle{1, 2, 30, 9, 4, 0}, disc{5, 6, 3, 0}, ring{5, 6, 9, 2, 0}, stroke{[]point{{1, 1}, {9, 3}, {2, 8}}, 2, 0}, stroke{[]point{{4, 4}}, 2, 0}} {
		x0, y0, x1, y1 := s.bounds()
		inside := 0
		for x := -20.0; x < 60; x += 0.5 {
			for y := -20.0; y < 60; y += 0.5 {
				if s.distance(x, y) >= 0 {
					continue
				}
				if inside++; x < x0 || x > x1 || y < y0 || y > y1 {
					t.Fatalf("%+v: (%v, %v) is outside the bounds", s, x, y)
				}
			}
		}
		if inside == 0 {
			t.Errorf("%+v covers nothing", s)
		}
	}
}

func TestSizes(t *testing.T) {
	d := of(t, "1x60x3:-")
	for _, size := range []int{math.MinInt, -1, 0, MinSize - 1, MaxSize + 1, math.MaxInt} {
		_, err := d.PNG(size)
		_, err2 := d.SVG(size)
		if want := fmt.Sprintf("size %d: must be 64 to 1024", size); err == nil || err.Error() != want || err2 == nil || err2.Error() != want {
			t.Errorf("%v, %v, want %s", err, err2, want)
		}
	}
	svg := string(gametest.Must(d.SVG(MinSize))(t))
	if !strings.Contains(svg, `height="64"`) {
		t.Error(svg[:200])
	}
}

func TestText(t *testing.T) {
	if got, want := of(t, "4x3x3:1223").Text(), " .  .  .  . \n .  X  .  . \n X  O (O) . \n 1  2  3  4 \n4x3x3:1223, X to move\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := of(t, "3x3x3free:51298").Text(), " O [X] . \n . [X] . \n . [X] O \n3x3x3free:51298, X wins\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A board without its moves is drawn too, and bad text is refused with a reason.
func TestOf(t *testing.T) {
	d := of(t, `{"board":[0,0,0,0,1,2],"rows":2,"columns":3,"inarow":2,"mark":1}`)
	if want := " .  .  . \n .  X  O \n 1  2  3 \n3x2x2, 2 stones, X to move\n"; d.Text() != want {
		t.Errorf("got\n%swant\n%s", d.Text(), want)
	}
	for _, text := range []string{"", "48", "7x6x4:", "0x0x0:1", "{}", "x:1", "44\x00"} {
		if d, err := Of(text); err == nil {
			t.Errorf("%q is taken for %s", text, d.Title())
		}
	}
}

// Whatever text comes, there is an error or a picture.
func FuzzOf(f *testing.F) {
	for _, c := range golden {
		f.Add(c.position, 100, c.numbers)
	}
	f.Add(`{"board":[0,0,0,0,1,2],"rows":2,"columns":3,"inarow":2,"mark":1}`, 64, true)
	f.Fuzz(func(t *testing.T, text string, size int, numbers bool) {
		d, err := Of(text)
		if err != nil {
			return
		}
		d.Numbers = numbers
		svg, err := d.SVG(size)
		if (err == nil) != (size >= MinSize && size <= MaxSize) {
			t.Fatalf("size %d: %v", size, err)
		}
		if err == nil && xml.Unmarshal(svg, new(struct{})) != nil {
			t.Fatalf("%s is no XML", svg)
		}
		gametest.Must(d.PNG(MinSize))(t)
	})
}
