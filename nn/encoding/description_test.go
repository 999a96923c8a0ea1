package encoding_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/encoding"
)

// What is left out has a default, and a description stays the same through its text.
func TestParse(t *testing.T) {
	shortest := encoding.Description{
		Rules: "any", Layout: encoding.NCHW, Planes: []string{"own", "other"}, Rows: encoding.Top,
		Value:  encoding.Value{Kind: encoding.Tanh, For: encoding.Mover},
		Policy: encoding.Policy{Kind: encoding.Logits, Actions: encoding.Columns},
	}
	full := encoding.Description{
		Rules: "3x3x3free", Input: "obs", Layout: encoding.NHW, Planes: []string{"0.5*ones+0.5*player"}, Rows: encoding.Bottom, Mask: "legal",
		Value:  encoding.Value{Output: "v", Kind: encoding.WDLLogits, For: encoding.Second},
		Policy: encoding.Policy{Output: "p", Kind: encoding.LogProbs, Actions: encoding.Cells},
	}
	for text, want := range map[string]encoding.Description{
		"": shortest, "{}": shortest, "# nothing\n": shortest,
		"rules: 3x3x3free\ninput: obs\nlayout: NHW\nplanes: 0.5*ones+0.5*player\nrows: bottom\nmask: legal\n" +
			"value: {output: v, kind: wdl_logits, for: second}\npolicy: {output: p, kind: log_probs, actions: cells}\n": full,
	} {
		got, err := encoding.Parse([]byte(text))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: error %v, %s", text, err, diff)
		}
		again, err := encoding.Parse(got.Marshal())
		if diff := cmp.Diff(got, again); err != nil || diff != "" {
			t.Errorf("%s: error %v, %s", got.Marshal(), err, diff)
		}
	}
	d, err := encoding.FromMetadata(map[string]string{encoding.MetadataKey: "planes: own-other\nlayout: NHW"})
	if err != nil || d.Layout != encoding.NHW {
		t.Errorf("%+v, error %v", d, err)
	}
	if _, err := encoding.FromMetadata(map[string]string{"evald.format": "1"}); !errors.Is(err, encoding.ErrNone) {
		t.Error(err)
	}
	if _, err := encoding.FromMetadata(map[string]string{encoding.MetadataKey: "plains: own"}); err == nil || !strings.Contains(err.Error(), encoding.MetadataKey) {
		t.Error(err)
	}
}

// Errors name the field, its value, and what is allowed.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"planks: [own]":              `field "planks": must be input, layout, mask, planes, policy, rows, rules, value`,
		"value: {unit: x}":           `value: field "unit": must be for, kind, output`,
		"value: tanh":                "value: line 1: want fields",
		"- own":                      "line 1: want fields",
		"layout: NCWH":               `layout "NCWH": must be NCHW, NHWC, NHW, NF or patterns`,
		"rows: up":                   `rows "up": must be top or bottom`,
		"rows: [top]":                "rows: line 1: want one word",
		"rows:":                      "rows: line 1: want one word",
		"value: {kind: sigmoid}":     `value: kind "sigmoid": must be tanh, linear, wdl or wdl_logits`,
		"value: {for: me}":           `value: for "me": must be mover, other, first or second`,
		"policy: {kind: softmax}":    `policy: kind "softmax": must be logits, probs or log_probs`,
		"policy: {actions: squares}": `policy: actions "squares": must be columns or cells`,
		"rules: 7x6":                 `want columns x rows x in-a-row, such as 7x6x4 or 3x3x3free; or any`,
		"rules: 3x3x3free":           `policy: actions "columns": must be cells, because without gravity moves are cells`,
		"layout: NHW":                `planes "own, other": must be one with layout NHW, such as own-other`,
		"layout: patterns":           `layout "patterns": takes no planes, and rules must be 7x6x4`,
		"planes: []":                 "planes: line 1: want a plane at least",
		"planes: [mine]":             `planes "mine": the part "mine" is not a term: want a sum such as own-other or 0.5*ones+0.5*player of own, other`,
		"planes: [own**other]":       `the part "own**other" is not a term`,
		"planes: [own--other]":       `the part "" is not a term`,
		"planes: [2*]":               `the part "2*" is not a term`,
		"planes: ['*own']":           `the part "*own" is not a term`,
		"planes: [1e9*own]":          `the part "1e9*own" is not a term`,
		"planes: [nan]":              `the part "nan" is not a term`,
		"planes: [own-]":             `the part "" is not a term`,
		"planes: ['" + strings.Repeat("own+", 60) + "own']": "the text is too long",
		"planes: [" + strings.Repeat("own,", 64) + "own]":   "must be 1 to 64",
		"rows: top\nrows: top":                              "field rows is there twice",
		"rows: top\n---\nrows: top":                         "a second document follows",
		"input: x\nmask: x":                                 `mask "x": is the name of the input too`,
		"value: {output: x}\npolicy: {output: x}":           `policy: output "x": is the output of the value too`,
		"rows: 'top":               "yaml",
		strings.Repeat(" ", 1<<17): "must have at most 65536",
		"planes: &a [*a]":          "planes: line 1: want one word",
	} {
		_, err := encoding.Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "description: ") {
			t.Errorf("%.60q: error %v, want %q", text, err, want)
		}
	}
}

// What does not fit the file is an error that names the field to change.
func TestCodecErrors(t *testing.T) {
	outputs := []string{"v f N 1", "p f N 7"}
	for _, c := range []struct {
		name, text, rules string
		inputs, outputs   []string
		want              string
	}{
		{"fine", "", "7x6x4", []string{"x f N 2 6 7"}, outputs, ""},
		{"free", "", "9x5x4", []string{"x f N 2 H W"}, []string{"v f N 1", "p f N W"}, ""},
		{"flat value", "", "7x6x4", []string{"x f N 2 6 7"}, []string{"v f N", "p f N 7"}, ""},
		{"no shapes", "{value: {output: v}, policy: {output: p}}", "7x6x4", []string{"x f"}, []string{"v f", "p f"}, ""},
		{"planes", "", "7x6x4", []string{"x f N 3 6 7"}, outputs, `input "x": its shape is [N,3,6,7], and layout NCHW with 2 planes on 7x6x4 takes [N,2,6,7]`},
		{"layout", "", "7x6x4", []string{"x f N 6 7 2"}, outputs, `takes [N,2,6,7]`},
		{"board", "", "9x5x4", []string{"x f N 2 6 7"}, outputs, `on 9x5x4 takes [N,2,5,9]`},
		{"rules", "rules: 7x6x4", "9x5x4", []string{"x f N 2 6 7"}, outputs, "rules: the network knows 7x6x4 alone, not 9x5x4"},
		{"gravity", "", "3x3x3free", []string{"x f N 2 3 3"}, outputs, `policy: actions "columns": must be cells on 3x3x3free`},
		{"input", "input: y", "7x6x4", []string{"x f N 2 6 7"}, outputs, `input "y": must be one of the file's inputs, "x" [N,2,6,7] of float32`},
		{"two inputs", "", "7x6x4", []string{"x f N 2 6 7", "m b N 7"}, outputs, `input "": must be one of`},
		{"one more input", "input: x", "7x6x4", []string{"x f N 2 6 7", "m b N 7"}, outputs, `mask "": the file has more inputs than input and mask: "m" [N,7] of bool`},
		{"no mask", "mask: m", "7x6x4", []string{"x f N 2 6 7"}, outputs, `mask "m": must be one of`},
		{"mask", "mask: m", "7x6x4", []string{"x f N 2 6 7", "m b N 6"}, outputs, `mask "m": its shape is [N,6], and policy: actions columns on 7x6x4 takes [N,7]`},
		{"no inputs", "", "7x6x4", nil, outputs, "of which there are none"},
		{"half", "", "7x6x4", []string{"x h N 2 6 7"}, outputs, "it takes float16: export the network with an input of float32"},
		{"half output", "value: {output: v}", "7x6x4", []string{"x f N 2 6 7"}, []string{"v h N 1", "p f N 7"}, "it gives float16: export the network with outputs of float32"},
		{"bool", "planes: [own, own-other]", "7x6x4", []string{"x b N 2 6 7"}, outputs, `planes "own-other": the input takes bool: must be one of own`},
		{"bool of a quarter", "planes: [own, inarow]", "7x6x4", []string{"x b N 2 6 7"}, outputs, `planes "inarow": the input takes bool`},
		{"whole", "planes: [own, 0.5*ones]", "7x6x4", []string{"x l N 2 6 7"}, outputs, `planes "0.5*ones": the input takes int64: must be a sum of whole numbers`},
		{"unsigned", "planes: [own, -other]", "7x6x4", []string{"x u N 2 6 7"}, outputs, `planes "-other": the input takes uint8, which has no values below 0`},
		{"small", "planes: [own, 100*other+100]", "7x6x4", []string{"x i N 2 6 7"}, outputs, `must not exceed 127 together`},
		{"no value", "", "7x6x4", []string{"x f N 2 6 7"}, []string{"p f N 7"}, `value: output "": must be one of the file's outputs, "p" [N,7] of float32; of those 0 fit value: kind tanh`},
		{"two values", "", "7x6x4", []string{"x f N 2 6 7"}, append(outputs, "w f N 1"), `of those 2 fit value: kind tanh`},
		{"value", "value: {output: p}", "7x6x4", []string{"x f N 2 6 7"}, outputs, `value: output "p": its shape is [N,7], and value: kind tanh takes [N] or [N,1]`},
		{"wdl", "value: {kind: wdl}", "7x6x4", []string{"x f N 2 6 7"}, outputs, `of those 0 fit value: kind wdl`},
		{"policy", "policy: {actions: cells}", "7x6x4", []string{"x f N 2 6 7"}, outputs, `of those 0 fit policy: actions cells on 7x6x4`},
		{"batches", "", "7x6x4", []string{"x f 1 2 6 7"}, []string{"v f 2 1", "p f N 7"}, "another input or output has 1 positions"},
		{"tables", "{layout: patterns, rules: 7x6x4}", "7x6x4", []string{"x f N 33"}, outputs, "layout patterns int64"},
	} {
		d := gametest.Must(encoding.Parse([]byte(c.text)))(t)
		board := game.MustBoard(gametest.Must(game.ParseRules(c.rules))(t))
		_, err := encoding.NewCodec(d, board, file(t, c.inputs, c.outputs))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	d := gametest.Must(encoding.Parse(nil))(t)
	c := gametest.Must(encoding.NewCodec(d, game.MustBoard(game.Connect4), file(t, []string{"x f 16 2 6 7"}, []string{"v f 16 1", "p f 16 7"})))(t)
	if c.Batch != 16 {
		t.Errorf("a run has %d positions, want 16", c.Batch)
	}
}

// Decode handles every kind of value and policy, every perspective, full columns, and numbers that are not finite.
func TestDecode(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	full := parse(t, board, "1111112") // the first column is full, and the second player is to move
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	uniform := []float32{0, 1. / 6, 1. / 6, 1. / 6, 1. / 6, 1. / 6, 1. / 6}
	for _, c := range []struct {
		name, value, policy string
		v, p                []float32
		wdl, want           []float32 // nil if they must not be finite
	}{
		{"tanh", "{kind: tanh}", "{}", []float32{0.5}, make([]float32, 7), []float32{0.75, 0, 0.25}, uniform},
		{"above 1", "{kind: linear}", "{}", []float32{1.5}, make([]float32, 7), []float32{1, 0, 0}, uniform},
		{"first", "{for: first}", "{}", []float32{0.5}, make([]float32, 7), []float32{0.25, 0, 0.75}, uniform},
		{"second", "{for: second}", "{}", []float32{0.5}, make([]float32, 7), []float32{0.75, 0, 0.25}, uniform},
		{"other", "{for: other}", "{}", []float32{0.5}, make([]float32, 7), []float32{0.25, 0, 0.75}, uniform},
		{"wdl", "{kind: wdl}", "{}", []float32{0.6, 0.4, 1}, make([]float32, 7), []float32{0.3, 0.2, 0.5}, uniform},
		{"wdl for the first", "{kind: wdl, for: first}", "{}", []float32{0.6, 0.4, 1}, make([]float32, 7), []float32{0.5, 0.2, 0.3}, uniform},
		{"wdl below 0", "{kind: wdl}", "{}", []float32{-1e-9, 1, 1}, make([]float32, 7), []float32{0, 0.5, 0.5}, uniform},
		{"wdl logits", "{kind: wdl_logits}", "{}", []float32{0, 0, float32(math.Log(2))}, make([]float32, 7), []float32{0.25, 0.25, 0.5}, uniform},
		{"logits", "{}", "{}", []float32{0}, []float32{1000, 0, 0, 0, 0, 0, float32(math.Log(3))}, []float32{0.5, 0, 0.5}, []float32{0, 0.125, 0.125, 0.125, 0.125, 0.125, 0.375}},
		{"log_probs", "{}", "{kind: log_probs}", []float32{0}, []float32{nan, -inf, -inf, -inf, -inf, -inf, -3}, []float32{0.5, 0, 0.5}, []float32{0, 0, 0, 0, 0, 0, 1}},
		{"probs", "{}", "{kind: probs}", []float32{0}, []float32{0.5, 0.1, 0.1, 0.1, 0.1, 0.1, -1e-9}, []float32{0.5, 0, 0.5}, []float32{0, 0.2, 0.2, 0.2, 0.2, 0.2, 0}},
		{"illegal alone", "{}", "{kind: probs}", []float32{0}, []float32{1, 0, 0, 0, 0, 0, 0}, []float32{0.5, 0, 0.5}, uniform},
		{"value of NaN", "{}", "{}", []float32{nan}, make([]float32, 7), nil, uniform},
		{"infinite value", "{kind: linear}", "{}", []float32{inf}, make([]float32, 7), nil, uniform},
		{"wdl of nothing", "{kind: wdl}", "{}", []float32{0, 0, 0}, make([]float32, 7), nil, uniform},
		{"wdl of NaN", "{kind: wdl}", "{}", []float32{1, nan, 0}, make([]float32, 7), nil, uniform},
		{"infinite logits", "{kind: wdl_logits}", "{}", []float32{inf, 0, 0}, make([]float32, 7), nil, uniform},
		{"policy of NaN", "{}", "{}", []float32{0}, []float32{0, 0, nan, 0, 0, 0, 0}, []float32{0.5, 0, 0.5}, nil},
		{"infinite policy", "{}", "{}", []float32{0}, []float32{0, 0, inf, 0, 0, 0, 0}, []float32{0.5, 0, 0.5}, nil},
		{"impossible policy", "{}", "{kind: log_probs}", []float32{0}, []float32{0, -inf, -inf, -inf, -inf, -inf, -inf}, []float32{0.5, 0, 0.5}, nil},
		{"infinite probability", "{}", "{kind: probs}", []float32{0}, []float32{0, 0, inf, 0, 0, 0, 0}, []float32{0.5, 0, 0.5}, nil},
		{"probability of NaN", "{}", "{kind: probs}", []float32{0}, []float32{0, 0, nan, 0, 0, 0, 0}, []float32{0.5, 0, 0.5}, nil},
	} {
		d := gametest.Must(encoding.Parse([]byte("value: " + c.value + "\npolicy: " + c.policy)))(t)
		outputs := []string{"v f N 1", "p f N 7"}
		if len(c.v) == 3 {
			outputs[0] = "v f N 3"
		}
		codec := gametest.Must(encoding.NewCodec(d, board, file(t, []string{"x f N 2 6 7"}, outputs)))(t)
		b := eval.NewBatch(board, 1)
		b.Pos[0] = full
		codec.Decode(b, c.v, c.p)
		if (b.Finite() == nil) != (c.wdl != nil && c.want != nil) {
			t.Errorf("%s: %v %v", c.name, b.WDL, b.Policy)
		}
		if c.wdl != nil {
			close(t, c.name+": WDL", b.WDL, c.wdl)
		}
		if c.want != nil {
			close(t, c.name+": policy", b.Policy, c.want)
		}
	}
}

// A policy of cells has them in the order of the planes, and with gravity the landing cell counts.
func TestDecodeCells(t *testing.T) {
	for _, rows := range []string{"top", "bottom"} {
		for _, rules := range []string{"7x6x4", "3x3x3free"} {
			board := game.MustBoard(gametest.Must(game.ParseRules(rules))(t))
			d := gametest.Must(encoding.Parse([]byte("rows: " + rows + "\nmask: m\npolicy: {kind: probs, actions: cells}")))(t)
			c := gametest.Must(encoding.NewCodec(d, board, file(t, []string{"x f N 2 H W", "m f N H W"}, []string{"v f N 1", "p f N H W"})))(t)
			b := eval.NewBatch(board, 1)
			b.Pos[0] = gametest.Position(gametest.Rand(4), board, board.Cells()/2, true)
			policy, mask := make([]float32, board.Cells()), numbers(c, 1, b.Pos)
			sum := float32(0)
			for cell := range policy {
				column, row := cell%board.Columns(), cell/board.Columns()
				if rows == "top" {
					row = board.Rows() - 1 - row
				}
				policy[cell] = float32(cell + 1)
				if legal := board.Legal(b.Pos[0]).Has(board.Index(column, row)); legal != (mask[cell] == 1) {
					t.Errorf("%s %s: cell %d is legal %v", rules, rows, cell, legal)
				} else if legal {
					sum += policy[cell]
				}
			}
			c.Decode(b, []float32{0}, policy)
			for cell := range policy {
				column, row := cell%board.Columns(), cell/board.Columns()
				if rows == "top" {
					row = board.Rows() - 1 - row
				}
				a := board.CellAction(column, row)
				if mask[cell] == 1 && math.Abs(float64(b.Policy[a]-policy[cell]/sum)) > 1e-6 {
					t.Errorf("%s %s: action %d has %v, want %v", rules, rows, a, b.Policy[a], policy[cell]/sum)
				}
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"alpha_zero_general", "open_spiel", "lightzero", "pgx"} {
		f.Add(string(gametest.Must(encoding.Parse([]byte("layout: NHWC")))(f).Marshal()) + name)
	}
	f.Add("planes: [own-other, 1e-3*inarow, 0.5]\nlayout: NF")
	f.Add("{}")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := encoding.Parse([]byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "description: ") || len(err.Error()) > 2000 {
				t.Fatal(err)
			}
			return
		}
		again, err := encoding.Parse(d.Marshal())
		if diff := cmp.Diff(d, again); err != nil || diff != "" {
			t.Fatalf("error %v, %s", err, diff)
		}
	})
}
