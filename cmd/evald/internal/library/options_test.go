package library

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// A wrong value of any option is refused by an error that names option and value, in no words of
// JSON or Go.
func TestOptionTypes(t *testing.T) {
	refused := func(options any, decoded func(string) error) {
		fields := 0
		for _, f := range reflect.VisibleFields(reflect.TypeOf(options)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			fields++
			values := []string{`"x"`, `-1.5`, `[3]`, `{"a":[1]}`}
			if f.Type.Kind() == reflect.String {
				values = values[1:]
			} else if f.Type.Kind() == reflect.Float64 || f.Type == reflect.TypeFor[*float64]() {
				values = []string{`"x"`, `true`, `[3]`}
			}
			for _, value := range values {
				err := decoded(fmt.Sprintf(`{%q: %s}`, name, value))
				if err == nil || !strings.Contains(err.Error(), name+" is "+value) || !strings.Contains(err.Error(), "must be") {
					t.Errorf("%s of %T as %s: %v", name, options, value, err)
					continue
				}
				for _, foreign := range []string{"json", "Go ", "int64", "float64", "uint64", "struct", "unmarshal"} {
					if strings.Contains(err.Error(), foreign) {
						t.Errorf("%s of %T as %s: %v", name, options, value, err)
					}
				}
			}
		}
		if fields == 0 {
			t.Errorf("%T has no options", options)
		}
		if err := decoded(`{"nonsense": 1}`); err == nil || err.Error() != "nonsense is unknown" {
			t.Errorf("an unknown option: %v", err)
		}
	}
	refused(Options{}, func(s string) error { return decode(s, new(Options)) })
	refused(SolveOptions{}, func(s string) error { return decode(s, new(SolveOptions)) })
	refused(GameOptions{}, func(s string) error { return decode(s, new(GameOptions)) })
	refused(RecordPaths{}, func(s string) error { return decode(s, new(RecordPaths)) })
}

// Every call that reads the caller's positions refuses those that no game reaches.
func TestImpossible(t *testing.T) {
	var c Calls
	for _, rules := range []string{"7x6x4", "12x9x6", "3x3x3free"} {
		number, b, err := Board(rules)
		gametest.OK(t, err)
		e := gametest.Must(c.Open(`{"backend":"uniform"}`))(t)
		board, room := int64(number), make([]uint64, 1<<10)
		m := At(unsafe.Pointer(unsafe.SliceData(room)))
		for _, p := range []game.Position{
			{Own: game.Bits{Lo: math.MaxUint64}, All: game.Bits{Lo: math.MaxUint64}},
			{Own: game.Bits{Hi: math.MaxUint64}, All: game.Bits{Hi: math.MaxUint64}},
			{Own: game.Bits{Lo: 1}},
			{All: game.Bits{Lo: 3}},
		} {
			at := At(unsafe.Pointer(&p))
			calls := map[string]func() error{
				"check":    func() error { return c.Check(board, 1, at) },
				"cells":    func() error { return c.Cells(board, 1, at, m) },
				"planes":   func() error { return c.Planes(board, 1, "", at, m) },
				"legal":    func() error { return c.Legal(board, 1, at, m) },
				"results":  func() error { return c.Results(board, 1, at, m) },
				"evaluate": func() error { return c.Evaluate(e, board, 1, at, 0, m, m, m) },
				"search":   func() error { _, err := c.Search(e, board, 1, at, "{}", m, m, m, m, m, m, m, m, 0, m); return err },
				"solve":    func() error { _, err := c.Solve(board, 1, at, "{}", m); return err },
			}
			for name, call := range calls {
				if err := call(); err == nil || !strings.HasPrefix(err.Error(), "position 0: ") {
					t.Errorf("%s of %v on %v: %v", name, p, b, err)
				}
			}
		}
		gametest.OK(t, c.Close(e))
	}
}

// An action with more than 32 bits is not cut to a legal one.
func TestLargeActions(t *testing.T) {
	_, b, err := Board("7x6x4")
	gametest.OK(t, err)
	for _, a := range []int64{1 << 32, 1<<32 + 3, -1 << 32, math.MaxInt64, math.MinInt64} {
		err := Step(b, make([]game.Position, 1), []int64{a}, make([]float32, 1), make([]uint8, 1), false)
		if want := fmt.Sprintf("position 0: action %d cannot be played", a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("action %d: %v", a, err)
		}
	}
}
