package open_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/nn/open"
)

// Each form of a name is read as it is written, and a wrong one says what is right.
func TestNames(t *testing.T) {
	for text, want := range map[string]open.Name{
		"":                               {},
		"exact":                          {Sort: open.SortExact, Text: "exact"},
		"solver":                         {Sort: open.SortSolver, Text: "solver"},
		"default":                        {Sort: open.SortNetwork, Text: "default"},
		"mine@3":                         {Sort: open.SortNetwork, Text: "mine@3"},
		"./exact":                        {Sort: open.SortNetwork, Text: "./exact"},
		"a/b:c.onnx":                     {Sort: open.SortNetwork, Text: "a/b:c.onnx"},
		"grpc://here:1/mine@2":           {Sort: open.SortService, Text: "grpc://here:1/mine@2", Hosts: "here:1", Model: "mine@2"},
		"grpcs://here:1+there:2/default": {Sort: open.SortService, Text: "grpcs://here:1+there:2/default", Hosts: "here:1+there:2", Model: "default", Secure: true},
	} {
		if got := gametest.Must(open.ParseName(text))(t); got != want {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"bitsquares": "bitsquares", "bitsquares:power=1.75": "bitsquares", "bitsquares:power=2.50": "bitsquares:power=2.5", "bitsquares:power=-0": "bitsquares:power=0",
		"rollout:games=7": "rollout:games=7", "uniform": "uniform", "bitsquares:width=6:power=2": "bitsquares:power=2:width=6", "gameovers:width=6": "gameovers", "oddeven:width=7": "oddeven:width=7",
	} {
		if got := gametest.Must(open.ParseName(text))(t); got.Sort != open.SortHeuristic || got.String() != want || got.Heuristic.String() != want {
			t.Errorf("%q is %+v, want %s", text, got, want)
		}
	}
	for text, says := range map[string]string{
		"grpc://":               "must be grpc://HOST:PORT/MODEL",
		"grpcs://here:1":        "must be grpc://HOST:PORT/MODEL",
		"uniform:x=1":           "uniform has no parameters",
		"bitsquares:games=2":    `bitsquares has no "games", but power`,
		"bitsquares:power=9":    `power is "9", want a number from 0 to 8`,
		"bitsquares:power=NaN":  "want a number from 0 to 8",
		"bitsquares:":           `bitsquares has no "", but power`,
		"rollout:games=1.5":     "want a whole number from 1 to 1000",
		"bitsquares:power=1,x=": `power is "1,x=", want a number from 0 to 8; parameters of a heuristic are separated by colons`,
		"bitsquares:width=0":    `width is "0", want a number from 0.01 to 1000`,
		"oddeven:power=2":       `oddeven has no "power", but width`,

		"bitsquares:power=1:power=2": "power is given twice",
	} {
		if n, err := open.ParseName(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is %+v, %v, want %s", text, n, err, says)
		}
	}
}

// A heuristic may be named as a model or as a backend, with the same bits, and with a parameter it is another one.
func TestNamedHeuristics(t *testing.T) {
	pos := gametest.Open(gametest.Rand(3), connect4, 30)
	var all [][]float32
	for _, o := range []open.Options{{Backend: "bitsquares"}, {Model: "bitsquares"}, {Model: "bitsquares", Backend: open.CPU}, {Model: "bitsquares:power=1.75"}, {Model: "bitsquares:power=3"}, {Backend: "bitsquares:power=3"}} {
		e, _ := opened(t, o)
		b := evaluate(t, e.Evaluator, connect4, pos)
		if e.Model != e.ModelOn(game.Connect4) || !heuristic.Is(e.Model) || e.Network || e.How != "heuristic "+e.Model || !slices.Contains(b.Source, eval.Bitsquares) {
			t.Errorf("%+v: %+v", o, e)
		}
		all = append(all, b.WDL)
	}
	for i, want := range []int{0, 0, 0, 0, 4, 4} {
		if !slices.Equal(all[i], all[want]) || slices.Equal(all[0], all[4]) {
			t.Errorf("the answers %d are not those of %d, or power changes nothing", i, want)
		}
	}
}

// Names of what is not there, or cannot do what is asked, say what can.
func TestNamesRefused(t *testing.T) {
	t.Setenv("EVALD_MODELS", t.TempDir())
	for _, c := range []struct {
		o    open.Options
		says string
	}{
		{open.Options{Model: "nosuch"}, `model "nosuch" is neither a file nor a shipped model (default, default-fast, any, seeded-2x16), nor a heuristic (bitsquares, gameovers, oddeven, rollout, uniform)`},
		{open.Options{Model: "solver"}, "evald solve"},
		{open.Options{Model: "grpc://here:1/x"}, "this program opens no models of services"},
		{open.Options{Model: "bitsquares", Backend: open.GPU}, "heuristic bitsquares is computed by the CPU alone, but the backend is gpu"},
		{open.Options{Model: "uniform", GPUs: []int{1}}, "the GPUs are [1]"},
		{open.Options{Model: "uniform", Mirror: true}, "heuristic uniform uses no network"},
		{open.Options{Backend: "bitsquares:power=x"}, `power is "x"`},
	} {
		if _, err := open.Open(c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %s", c.o, err, c.says)
		}
	}
	for name, says := range map[string]string{"exact": "and a solver, and this needs a network: a name such as default, or a file, such as ./exact", "solver": "is no network", "uniform": "is a heuristic", "grpc://a:1/b": "is on another machine"} {
		if _, _, err := open.Any(name); err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "model "+name) {
			t.Errorf("%s as a file: %v, want %s", name, err, says)
		}
	}
	// A file that is called as a heuristic is opened by its path.
	t.Chdir(t.TempDir())
	s, _, err := open.Model(seeded)
	gametest.OK(t, err)
	gametest.OK(t, os.WriteFile("uniform", s.Content, 0o600))
	if e, _ := opened(t, open.Options{Model: "." + string(filepath.Separator) + "uniform"}); !e.Network || e.Model != "uniform" {
		t.Errorf("%+v", e)
	}
}

// The model exact is the networks that ship with Exact.
func TestNamedExact(t *testing.T) {
	lost, _, err := connect4.ParseMoves("44464666446333323")
	gametest.OK(t, err)
	unclear, _, err := connect4.ParseMoves("44444412122")
	gametest.OK(t, err)
	e, _ := opened(t, open.Options{Model: open.ExactModel})
	if b := evaluate(t, e.Evaluator, connect4, []game.Position{lost, unclear}); b.Source[0] != eval.Solved || !b.Source[1].Network() || e.ModelOn(nineFive.Rules()) != open.AnyModel {
		t.Errorf("sources %v, %+v", b.Source, e)
	}
}

// Any text is a name or an error that says so. A name's text is read as the same name, and opening it is possible or an error.
func FuzzName(f *testing.F) {
	for _, text := range []string{"", "default", "mine@2", "bitsquares:power=1.5", "rollout:games=3", "grpc://a:1+b:2/c", "grpcs://x/y", "exact", "solver", "uniform:", "a\x00b", "../x", "bitsquares:power=0x1p-3"} {
		f.Add(text)
	}
	f.Setenv("EVALD_MODELS", f.TempDir())
	f.Fuzz(func(t *testing.T, text string) {
		n, err := open.ParseName(text)
		if err != nil {
			if err.Error() == "" || n != (open.Name{}) {
				t.Fatalf("%q: %+v, %v", text, n, err)
			}
			return
		}
		if again, err := open.ParseName(n.String()); err != nil || again != n {
			t.Fatalf("%q is %+v, whose text %q is %+v, %v", text, n, n.String(), again, err)
		}
		if n.Sort != open.SortHeuristic && n.Sort != open.SortSolver && n.Sort != open.SortService {
			return // files are not opened here
		}
		e, err := open.Open(open.Options{Model: text})
		switch {
		case err == nil:
			gametest.OK(t, e.Close())
		case n.Sort == open.SortHeuristic || !strings.HasPrefix(err.Error(), "model "):
			t.Fatalf("%q: %v", text, err)
		}
	})
}
