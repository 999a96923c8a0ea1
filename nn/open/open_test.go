package open_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/open"
)

const seeded = "seeded-2x16" // small, and not trained

var (
	connect4 = game.MustBoard(game.Connect4)
	nineFive = game.MustBoard(game.Rules{Columns: 9, Rows: 5, InARow: 4, Gravity: true})
)

// TestMain leaves the user's cache alone: nothing is measured. There is a kind of networks for tests.
func TestMain(m *testing.M) {
	os.Setenv("EVALD_CACHE_DIR", os.DevNull)
	open.AddToy()
	os.Exit(m.Run())
}

// opened opens an evaluator for one test, at whose end it is closed, and returns it with its notes.
func opened(t *testing.T, o open.Options) (e *open.Opened, notes []string) {
	t.Helper()
	o.Note = func(text string) { notes = append(notes, text) }
	e = gametest.Must(open.Open(o))(t)
	t.Cleanup(func() {
		for range 2 {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return e, notes
}

func evaluate(t *testing.T, e *eval.Evaluator, board *game.Board, pos []game.Position) *eval.Batch {
	t.Helper()
	b := eval.NewBatch(board, len(pos))
	copy(b.Pos, pos)
	gametest.OK(t, e.Evaluate(t.Context(), b))
	return b
}

// Without options the networks that ship answer the games that they are for, and bitsquares the others.
func TestDefault(t *testing.T) {
	e, _ := opened(t, open.Options{})
	if e.Model != "default" || !e.Network || !slices.Equal(e.Games, []game.Rules{game.Connect4}) || !strings.HasSuffix(e.How, "; network any on boards of 3-12x3-13x3-6 and 3-6x3-6x3-6free, bitsquares on others") {
		t.Errorf("%+v", e)
	}
	any, _ := opened(t, open.Options{Model: open.AnyModel})
	two := game.MustBoard(game.Rules{Columns: 2, Rows: 4, InARow: 3, Gravity: true})
	for board, model := range map[*game.Board]string{connect4: "default", nineFive: "any", two: "bitsquares"} {
		pos := gametest.Open(gametest.Rand(1), board, 20)
		b := evaluate(t, e.Evaluator, board, pos)
		for i, s := range b.Source {
			if s.Network() != (model != "bitsquares") || e.ModelOn(board.Rules()) != model || open.Shipped(board.Rules()) != model {
				t.Errorf("%v, row %d: source %v, model on it %s and %s, want %s", board.Rules(), i, s, e.ModelOn(board.Rules()), open.Shipped(board.Rules()), model)
			}
		}
		if same := cmp.Equal(b.WDL, evaluate(t, any.Evaluator, board, pos).WDL); same != (model == "any") {
			t.Errorf("%v: the answers are those of the network any: %v", board.Rules(), same)
		}
	}
	// A closed evaluator opens no other network.
	closed, _ := opened(t, open.Options{Backend: open.CPU})
	gametest.OK(t, closed.Close())
	if err := closed.Evaluate(t.Context(), eval.NewBatch(nineFive, 1)); err == nil || !strings.Contains(err.Error(), "model any: the evaluator is closed") {
		t.Errorf("closed: %v", err)
	}
	// Mirrored, both are.
	mirrored, _ := opened(t, open.Options{Backend: open.CPU, Mirror: true})
	if got := mirrored.ModelOn(nineFive.Rules()); got != "any, mirrored" {
		t.Errorf("mirrored, the model is %q", got)
	}
	// By its name it answers every game.
	e, _ = opened(t, open.Options{Model: open.DefaultModel, Backend: open.CPU})
	if b := evaluate(t, e.Evaluator, nineFive, make([]game.Position, 1)); b.Source[0] != eval.CPU || e.Games != nil || e.ModelOn(nineFive.Rules()) != "default" {
		t.Errorf("by name: source %v, %+v", b.Source[0], e)
	}
}

// The manifest of the shipped networks says of games what their files say, where these do. The network for many boards has learned the mix
// of that name.
func TestShippedGames(t *testing.T) {
	for _, e := range models.List() {
		_, p, err := open.Any(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Rules(); len(got) > 0 && !slices.Equal(got, e.Rules) {
			t.Errorf("%s: the file has the games %v, the manifest %v", e.Name, got, e.Rules)
		}
		if !slices.Equal(p.Range(), e.Range) {
			t.Errorf("%s: the file has the range %v, the manifest %v", e.Name, p.Range(), e.Range)
		}
	}
	var games []string
	for _, part := range gametest.Must(game.ParseMix(game.AnyMix))(t) {
		games = append(games, part.Rules.String())
	}
	if e, _ := models.Find(open.AnyModel); !slices.Equal(e.Rules, games) || !slices.Equal(e.Range, game.AnyRange().Strings()) {
		t.Errorf("%s is for %v, %v", open.AnyModel, e.Rules, e.Range)
	}
}

// Each way to the same network gives its answers, as the reference computes them.
func TestNetworkAnswers(t *testing.T) {
	s, n, err := open.Model(seeded)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "mine.safetensors")
	gametest.OK(t, os.WriteFile(file, s.Content, 0o644))
	t.Setenv(open.PathVariable, "go")
	pos := gametest.Positions(gametest.Rand(2), connect4, 50, true)
	want := evaluate(t, evaltest.Raw(net.NewBackend(n)), connect4, pos)
	mirrored := evaluate(t, evaltest.Raw(eval.NewMirrored(net.NewBackend(n))), connect4, pos)
	for _, test := range []struct {
		o     open.Options
		model string
		notes int
		want  *eval.Batch
	}{
		{open.Options{Model: seeded, Backend: open.CPU}, seeded, 1, want},
		{open.Options{Model: seeded + "@1"}, seeded, 1, want},
		{open.Options{Model: file, Backend: open.Auto}, "mine", 0, want},
		{open.Options{Model: file, Backend: open.CPU, Mirror: true}, "mine, mirrored", 0, mirrored},
	} {
		e, notes := opened(t, test.o)
		b := evaluate(t, evaltest.Raw(e.Backend()), connect4, pos)
		for i := range b.WDL {
			if d := math.Abs(float64(b.WDL[i] - test.want.WDL[i])); d > 1e-4 {
				t.Fatalf("%+v: row %d is %v, want %v", test.o, i/3, b.WDLRow(i/3), test.want.WDLRow(i/3))
			}
		}
		if e.Model != test.model || !e.Network || len(notes) != test.notes || !strings.HasPrefix(e.How, "network ") {
			t.Errorf("%+v: %+v, notes %q", test.o, e, notes)
		}
		if d := evaltest.Rules(t, e.Evaluator, connect4, 200, 18); d.Won == 0 {
			t.Errorf("%+v: nothing was won at once: %+v", test.o, d)
		}
	}
}

// add puts a network into the user's store.
func add(t *testing.T, entry models.Entry, content []byte) {
	t.Helper()
	store := gametest.Must(models.UserStore())(t)
	if _, _, err := store.Add(entry, content); err != nil {
		t.Fatal(err)
	}
}

// The user's store is looked at after the shipped models, and before files.
func TestModelOfStore(t *testing.T) {
	t.Setenv("EVALD_MODELS", t.TempDir())
	s, n, err := open.Model(seeded)
	if err != nil {
		t.Fatal(err)
	}
	if s.Path != "" || s.Label() != seeded || s.Warning() != "model seeded-2x16 is not trained; its answers mean nothing" {
		t.Errorf("%+v, called %s: %s", s.Entry, s.Label(), s.Warning())
	}
	for range 2 {
		add(t, models.Entry{Name: "mine", Config: n.Config().String(), Trained: true, Rules: []string{"9x5x4"}}, s.Content)
	}
	got, _, err := open.Model("mine")
	if err != nil || got.Label() != "mine@1" || got.Path == "" || got.Warning() != "" || got.SHA256 != s.SHA256 {
		t.Errorf("%+v, called %s: %s, %v", got.Entry, got.Label(), got.Warning(), err)
	}
	if _, ok, err := open.Find(got.Path); ok || err != nil {
		t.Errorf("a path is found as a name: %v", err)
	}
	e, _ := opened(t, open.Options{Model: "mine@1"})
	if e.Model != "mine@1" || e.Games != nil {
		t.Errorf("%+v", e)
	}
	if _, _, err := open.Model("yours"); err == nil || !strings.Contains(err.Error(), "(mine@1)") {
		t.Errorf("a model that is not there: %v", err)
	}
}

// A file names the games that its network was trained on, in one of two ways.
func TestRulesOfFile(t *testing.T) {
	t.Setenv("EVALD_MODELS", t.TempDir())
	_, n, err := open.Model(seeded)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		key, text string
		want      []string
	}{
		{"evald.rules", "7x6x4,9x5x4", []string{"7x6x4", "9x5x4"}},
		{"evald.training", `{"config":{"task":"all","rules":"5x4x4"},"step":50}`, []string{"5x4x4"}},
		{"evald.training", `{"config":{"task":"all","rules":"5x4x4,6x5x4=2"},"step":50}`, []string{"5x4x4", "6x5x4"}},
		{"evald.training", `{"config":{"task":"all","rules":"5x4x4"},"step":0}`, []string{}},
		{"evald.training", `{"config":7}`, []string{}},
		{"evald.training", "x", []string{}},
	} {
		n.Metadata = map[string]string{c.key: c.text}
		content, err := n.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("n%d", i)
		add(t, models.Entry{Name: name, Config: n.Config().String()}, content) // as evald imported it once
		s, _, err := open.Any(name)
		path := filepath.Join(t.TempDir(), name+".safetensors")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		file, _, fileErr := open.Any(path)
		if err != nil || fileErr != nil || !slices.Equal(s.Rules, c.want) || !slices.Equal(file.Rules, c.want) || (s.Warning() == "") != (len(c.want) > 0) {
			t.Errorf("%s: in the store %v (%s), as a file %v, want %v: %v, %v", c.text, s.Rules, s.Warning(), file.Rules, c.want, err, fileErr)
		}
	}
}

// A model takes at most the memory that Stored.Bytes reports, and not much less.
func TestBytes(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what lay in pools goes with the second one
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, name := range []string{seeded, open.DefaultModel, open.FastModel} {
		m, ok, err := open.Lookup(name)
		if err != nil || !ok || m.Content != nil {
			t.Fatalf("%s: found: %v, %v, %d bytes of content", name, ok, err, len(m.Content))
		}
		said := gametest.Must(m.Bytes())(t)
		before := heap()
		e, _ := opened(t, open.Options{Model: name, Backend: open.CPU})
		takes := heap() - before
		tiles := kernel.Path(e.CPUPath).Tiles() // of whose weights there is one form alone, in bfloat16
		if float64(takes) > 1.01*float64(said) || !tiles && 5*takes < said {
			t.Errorf("%s takes %d bytes, and reports at most %d", name, takes, said)
		}
		runtime.KeepAlive(e)
	}
	if _, err := (open.Stored{Entry: models.Entry{Config: "7x"}}).Bytes(); err == nil {
		t.Error("a shape that is none has a size")
	}
}

// A heuristic answers every game by itself.
func TestHeuristic(t *testing.T) {
	for _, name := range []string{"bitsquares", "uniform"} {
		e, _ := opened(t, open.Options{Backend: name})
		if b := evaluate(t, e.Evaluator, nineFive, make([]game.Position, 1)); b.Source[0].String() != name || e.Model != name || e.Network || e.How != "heuristic "+name || e.ModelOn(nineFive.Rules()) != name {
			t.Errorf("%s: source %v, %+v", name, b.Source[0], e)
		}
	}
}

// With Exact a proved result is answered by the solver, and only that.
func TestExact(t *testing.T) {
	e, _ := opened(t, open.Options{Exact: 1000})
	lost, _, err := connect4.ParseMoves("44464666446333323")
	gametest.OK(t, err)
	unclear, _, err := connect4.ParseMoves("44444412122")
	gametest.OK(t, err)
	b := evaluate(t, e.Evaluator, connect4, []game.Position{unclear, lost})
	if !b.Source[0].Network() || b.Source[1] != eval.Solved || b.Value(1) != -1 || !strings.HasSuffix(e.How, "; exact where 1000 nodes prove the result") {
		t.Errorf("sources %v, %v, %+v", b.Source, b.WDLRow(1), e)
	}
}

func TestErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.safetensors")
	for _, test := range []struct {
		o    open.Options
		path string // of the CPU
		says string
	}{
		{open.Options{Backend: "bitsquares", Model: seeded}, "", `backend bitsquares uses no model, but the model is "seeded-2x16"`},
		{open.Options{Backend: "uniform", Mirror: true}, "", "heuristic uniform uses no network whose answers Mirror could improve"},
		{open.Options{Backend: "tpu"}, "", `backend "tpu": must be one of auto, gpu, cpu, ort-cpu, ort-cuda, ort-tensorrt, ort for a network, and a heuristic's name such as bitsquares without one`},
		{open.Options{Model: missing}, "", "is neither a file nor a shipped model (default, default-fast, any, seeded-2x16)"},
		{open.Options{Model: t.TempDir()}, "", "is not a regular file"},
		{open.Options{Model: "importer_test.go"}, "", "importer_test.go: "},
		{open.Options{Model: seeded, Backend: open.CPU}, "mmx", `EVALD_CPU_PATH or option CPUPath: pack network: CPU path "mmx": this machine and build have `},
		{open.Options{Model: seeded}, "mmx", "EVALD_CPU_PATH or option CPUPath: "},
		{open.Options{Model: seeded, CPUPath: "mmx"}, "go", `CPU path "mmx"`},
	} {
		t.Setenv(open.PathVariable, test.path)
		if e, err := open.Open(test.o); e != nil || err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v, want %s", test.o, err, test.says)
		}
	}
}

// Without a GPU, the backend GPU is an error that says so, and Auto uses the CPU.
func TestNoGPU(t *testing.T) {
	if _, err := driver.Find(); !errors.Is(err, driver.ErrNone) {
		t.Skip("this machine has a GPU, or one that does not work")
	}
	_, err := open.Open(open.Options{Backend: open.GPU, Model: "read only if there is a GPU"})
	var none *open.NoGPUError
	if !errors.As(err, &none) || !errors.Is(err, driver.ErrNone) || !strings.HasPrefix(err.Error(), "backend gpu: ") || !strings.HasSuffix(err.Error(), "; backend cpu evaluates networks") {
		t.Errorf("%v", err)
	}
	e, _ := opened(t, open.Options{Model: seeded})
	if e.OnGPU || !strings.Contains(e.How, "; no GPU: ") {
		t.Errorf("%+v", e)
	}
}

// Plain Go is noted if there is nothing else, and kernels in C are not.
func TestNotesPlainGo(t *testing.T) {
	want := kernel.Paths()[0] == kernel.Go
	for _, path := range []string{"", "go"} {
		t.Setenv(open.PathVariable, path)
		_, notes := opened(t, open.Options{Model: seeded, Backend: open.CPU})
		if got := slices.ContainsFunc(notes, func(note string) bool { return strings.HasPrefix(note, "PLAIN GO evaluates") }); got != want {
			t.Errorf("%s=%q on a machine with the paths %v: plain Go is noted: %v; notes %q", open.PathVariable, path, kernel.Paths(), got, notes)
		}
	}
}

// overflowing is a network whose answers are not finite.
func overflowing(t *testing.T) *net.Network {
	t.Helper()
	_, n, err := open.Model(seeded)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"value.wdl.bias", "value.wdl.weight"} {
		w := n.Weight(name).Float32s()
		for i := range w {
			w[i] = 3e38
		}
	}
	return n
}
