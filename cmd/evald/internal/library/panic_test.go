package library

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// local makes calls as Serve does, but in this goroutine.
type local struct {
	t *testing.T
	*pipe
}

func newLocal(t *testing.T) *local {
	return &local{t, &pipe{calls: Calls{Version: "v1.2.3"}, late: map[int64][]array{}}}
}

// memory makes an array of n elements of a type.
func memory[T any](n int) ([]T, array) {
	var one T
	size := n * int(unsafe.Sizeof(one))
	a := array{make([]uint64, (size+7)/8), size}
	return slice[T](a.memory(), n), a
}

// make makes a call. Arguments are numbers (int, int64), texts and arrays.
func (l *local) make(name string, given ...any) (int64, error) {
	var r arguments
	for _, a := range given {
		switch a := a.(type) {
		case int:
			r = append(r, argument{number: int64(a)})
		case int64:
			r = append(r, argument{number: a})
		case string:
			r = append(r, argument{text: &a})
		case array:
			r = append(r, argument{array: &a})
		}
	}
	return l.calls.call(name, &r)
}

// end waits for the end of a long call, and releases it.
func (l *local) end(number int64, err error) error {
	if err != nil {
		return err
	}
	event, report := Nothing, array{make([]uint64, 7), 56}
	for event != Ended && err == nil {
		var n int64
		n, err = l.make("wait", number, 1000, report)
		event = Event(n)
	}
	_, released := l.make("release", number)
	return errors.Join(err, released)
}

// A panic in a goroutine of each kind is an error of its call that asks for a report. The next call
// has the answers of an evaluator that never panicked, and everything closes.
func TestPanics(t *testing.T) {
	var broken atomic.Bool
	open := func(name string) *Evaluator {
		stub := &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
			if broken.Load() {
				panic("broken network")
			}
			return nil
		}}
		return &Evaluator{evaluator: eval.New(stub, eval.Options{}), about: About{Model: name}, close: func() error { return nil }, rows: new(sync.Pool)}
	}
	number, b, err := Board("7x6x4")
	gametest.OK(t, err)
	const n = 60
	positions, in := memory[game.Position](n)
	copy(positions, gametest.Open(gametest.Rand(6), b, n))
	floats := func(n int) ([]float32, array) { return memory[float32](n) }
	type answers struct {
		wdl    []float32
		visits []uint32
	}
	for kind, call := range map[string]func(l *local, e int64) (answers, error){
		"evaluator": func(l *local, e int64) (answers, error) {
			wdl, into := floats(3 * n)
			_, policy := floats(7 * n)
			_, who := memory[uint8](n)
			_, err := l.make("evaluate", e, number, n, in, int64(0), into, policy, who)
			return answers{wdl: wdl}, err
		},
		"search": func(l *local, e int64) (answers, error) {
			visits, into := memory[uint32](7 * n)
			wdl, wdlInto := floats(3 * n)
			_, policy := floats(7 * n)
			_, q := floats(7 * n)
			_, best := memory[int32](n)
			_, proved := memory[int8](n)
			_, prior := floats(7 * n)
			_, raw := floats(n)
			_, none := memory[int32](0)
			err := l.end(l.make("search", e, number, n, in, `{"visits":20,"batch":16,"exact":false}`, into, policy, q, wdlInto, best, proved, prior, raw, 0, none))
			return answers{wdl, visits}, err
		},
		"self-play": func(l *local, e int64) (answers, error) {
			return answers{}, l.end(l.make("selfplay", e, number, `{"games":6,"visits":8,"batch":16}`))
		},
		"match": func(l *local, e int64) (answers, error) {
			options := fmt.Sprintf(`{"players":[{"name":"a","evaluator":%d},{"name":"b","agent":"random"}],"games":2,"search":{"visits":8}}`, e)
			return answers{}, l.end(l.make("match", number, options))
		},
		"score": func(l *local, e int64) (answers, error) {
			scores, of := memory[int32](7 * n)
			for i, p := range positions {
				for a := range 7 {
					if !b.CanPlay(p, a) {
						scores[7*i+a] = solver.NoMove
					}
				}
			}
			return answers{}, l.end(l.make("score", e, number, n, in, fmt.Sprintf(`{"sets":[{"name":"a","rows":%d}],"visits":[0]}`, n), of))
		},
		"solver": func(l *local, e int64) (answers, error) {
			if !broken.Load() {
				return answers{}, nil
			}
			w := gametest.Must(Solve(b, positions[:3], `{"threads":2,"nodes":1000}`, make([]int32, 3)))(t) // too short, as a mistake of a caller would be
			return answers{}, l.end(l.calls.keep(&call{Work: w, board: b}), nil)
		},
		"work": func(l *local, e int64) (answers, error) {
			if !broken.Load() {
				return answers{}, nil
			}
			return answers{}, l.end(l.calls.keep(&call{Work: begin(nil, 1, nil, func(context.Context, *Work) error { panic("broken work") })}), nil)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			l := newLocal(t)
			e, whole := l.calls.keep(open("default")), l.calls.keep(open("default"))
			for range 3 {
				broken.Store(true)
				_, err := call(l, e)
				if fault.In(err) == nil {
					t.Fatalf("error %v, want a fault", err)
				}
				for _, says := range []string{"evald has a fault", "evald v1.2.3", "please report", ".go:"} {
					if !strings.Contains(err.Error(), says) {
						t.Errorf("the error is %q, want %q in it", err, says)
					}
				}
				if len(err.Error()) > 1000 {
					t.Errorf("the error has %d characters", len(err.Error()))
				}
				broken.Store(false)
				got, err := call(l, e)
				gametest.OK(t, err)
				want, err := call(l, whole)
				gametest.OK(t, err)
				if !slices.Equal(got.wdl, want.wdl) || !slices.Equal(got.visits, want.visits) {
					t.Error("other answers than by an evaluator that never panicked")
				}
			}
			for _, number := range []int64{e, whole} {
				_, err := l.make("close", number)
				gametest.OK(t, err)
			}
		})
	}
}

// Calls in the wrong order, twice, and by several threads at once are errors, which cost no batch
// and leave nothing behind.
func TestWrongOrder(t *testing.T) {
	l := newLocal(t)
	board, _, err := Board("5x4x4")
	gametest.OK(t, err)
	_, in := memory[game.Position](1)
	_, many := memory[uint32](5)
	_, wdl := memory[float32](3)
	_, one := memory[int32](1)
	_, small := memory[int8](1)
	_, none := memory[int32](0)
	work := gametest.Must(l.make("search", 0, board, 1, in, `{"visits":20,"exact":false}`, many, many, many, wdl, one, small, many, one, 0, none))(t)
	refused := func(says string, name string, arguments ...any) {
		t.Helper()
		if _, err := l.make(name, arguments...); err == nil || !strings.Contains(err.Error(), says) || fault.In(err) != nil {
			t.Errorf("%s %v: %v, want %q", name, arguments, err, says)
		}
	}
	_, policy := memory[float32](5)
	report := array{make([]uint64, 7), 56}
	refused("call wait", "batch", work, 1, in)
	refused("call wait", "answer", work, 1, wdl, policy, "")
	refused("call wait", "game", work, in, many, wdl, small, one, many, many, one)
	for range 3 { // until it is answered, a batch is asked again
		if event := gametest.Must(l.make("wait", work, 1<<62, report))(t); Event(event) != Asked || report.words[0] != 1 {
			t.Fatalf("event %d of %d rows, want a batch of 1", event, report.words[0])
		}
	}
	gametest.Must(l.make("batch", work, 1, in))(t)
	gametest.Must(l.make("batch", work, 1, in))(t)
	refused("2 rows, and the batch has 1", "batch", work, 2, in)
	refused("-1 rows", "answer", work, -1, wdl, policy, "")
	refused("want 12", "answer", work, 1, array{}, policy, "")
	var threads sync.WaitGroup
	var answered atomic.Int64
	ones := slice[float32](wdl.memory(), 3)
	ones[0] = 1
	for range 3 { // only one of them answers a batch
		threads.Go(func() {
			for {
				_, err := l.make("answer", work, 1, wdl, policy, "")
				if err == nil {
					answered.Add(1)
				}
				if n, err := l.make("wait", work, 1, array{make([]uint64, 7), 56}); err == nil && Event(n) == Ended {
					return
				}
				runtime.Gosched()
			}
		})
	}
	threads.Wait()
	if n := answered.Load(); n < 10 || n > 20 {
		t.Errorf("%d batches of 20 visits are answered", n)
	}
	gametest.Must(l.make("release", work))(t)
	refused("closed", "release", work)
	refused("closed", "wait", work, 1, report)
	refused("4294967297 positions", "legal", board, most+1, in, small)
	refused("-9223372036854775808 positions", "legal", board, -1<<63, in, small)
	refused("none of this process", "legal", -1, 1, in, small)
	refused("2 lines of text, want 1", "parse", board, 1, "1\n2", 4, in)
	for _, missing := range []Memory{{}, At(nil)} {
		if err := l.calls.Legal(int64(board), 0, missing, missing); err != nil {
			t.Errorf("no positions: %v", err)
		}
		if _, err := l.calls.Try(func() (int64, error) { return 0, l.calls.Legal(int64(board), 1, missing, missing) }); err == nil || fault.In(err) != nil {
			t.Errorf("no array: %v", err)
		}
	}
	for _, size := range []int64{-1, most + 1, 1 << 62, 5} {
		if _, err := Text(nil, size); err == nil {
			t.Errorf("a text of %d bytes nowhere is no error", size)
		}
	}
}

// Each call takes as many arguments as the table says: behind them is the address for an error's
// text. Without texts and arrays, no call does anything.
func TestTable(t *testing.T) {
	for name, of := range table {
		r := make(arguments, MostArguments+1)
		var c Calls
		_, err := c.Try(func() (int64, error) { return of.make(&c, &r) })
		if len(r) != MostArguments+1-of.count {
			t.Errorf("%s takes %d arguments, want %d", name, MostArguments+1-len(r), of.count)
		}
		if fault.In(err) != nil {
			t.Errorf("%s without arguments: %v", name, err)
		}
	}
	if _, text, err := new(Calls).Call("nonsense", [MostArguments + 1]int64{1}); text != nil || err == nil {
		t.Errorf("an unknown call: %v", err)
	}
}
