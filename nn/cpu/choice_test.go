package cpu

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/net"
)

// The rates choose. A less exact path must be worth it, about equal paths stand in their order, and a path that fails is left out. The
// paths are those of this machine, because it alone knows which are exact.
func TestChoose(t *testing.T) {
	const vnni, float, bf16, avx2, tiles = kernel.AVX512VNNI, kernel.AVX512, kernel.AVX512BF16, kernel.AVX2, kernel.EmulatedAMX
	if vnni.Check() != nil || bf16.Check() != nil || tiles.Check() != nil {
		t.Skip("this machine has not these paths")
	}
	all := []kernel.Path{vnni, float, bf16, avx2, kernel.Go}
	withTiles := []kernel.Path{tiles, vnni, float}
	none := errors.New("no cache")
	for name, c := range map[string]struct {
		paths  []kernel.Path
		rates  []float64 // of all, and of tiles
		broken kernel.Path
		want   kernel.Path
		why    string
		gain   bool // of 8 bits
	}{
		"not measured":                     {all, nil, "", vnni, "not measured: no cache", false},
		"not measured, broken":             {all, nil, vnni, float, "not measured: no cache", false},
		"Zen 4, with ranges":               {all, []float64{17.5, 12.2, 12.1, 10.7}, "", vnni, "1.43 times as fast as any in float32", false},
		"Zen 4, without":                   {all[1:], []float64{17.5, 12.2, 12.1, 10.7}, "", float, "the fastest in float32", true},
		"Emerald Rapids":                   {all[1:], []float64{0, 14, 4.2, 7.3}, "", float, "the fastest in float32", false},
		"bfloat16 is worth it":             {all[1:], []float64{20, 10, 11.6, 7}, "", bf16, "1.16 times as fast", true},
		"it is not":                        {all[1:], []float64{11, 10, 11.4, 7}, "", float, "no other path is 1.15 times as fast", false},
		"8 bits are not":                   {all, []float64{11, 10, 10, 7}, "", float, "no other path", false},
		"about equal":                      {all, []float64{20, 10, 20.9, 10.4}, "", vnni, "1.92 times as fast", false},
		"the second is faster":             {all, []float64{20, 10, 21.2, 11}, "", bf16, "1.93 times as fast", false},
		"the best is broken":               {all, []float64{20, 10, 15, 7}, vnni, bf16, "1.50 times as fast", false},
		"tiles":                            {withTiles, []float64{18, 10, 4, 6, 0, 30}, "", tiles, "3.00 times as fast", false},
		"tiles while a neighbour has them": {withTiles, []float64{20, 9.7, 4, 5, 0, 15}, "", tiles, "1.55 times as fast", false},
		"tiles that are slow":              {withTiles, []float64{20, 9.7, 4, 5, 0, 9}, "", vnni, "2.06 times as fast", false},
		"tiles without ranges":             {[]kernel.Path{tiles, float}, []float64{20, 9.7, 4, 5, 0, 9}, "", tiles, "0.93 times as fast as any in float32, and rates of tiles count double", false},
		"only plain Go":                    {all[4:], nil, "", kernel.Go, "the only path", false},
	} {
		var rates map[kernel.Path]float64
		if c.rates != nil {
			rates = map[kernel.Path]float64{}
			for i, r := range c.rates {
				rates[append(all, tiles)[i]] = r
			}
		}
		got := choose(c.paths, rates, none, func(p kernel.Path) error {
			if p == c.broken {
				return errors.New("broken")
			}
			return nil
		})
		if got.Path != c.want || !strings.Contains(got.Why, c.why) || len(got.Failed) != len(c.broken)/max(1, len(c.broken)) {
			t.Errorf("%s: %+v, want %s: %s", name, got, c.want, c.why)
		}
		if gain, by := got.Int8Gain(); (gain > 0) != c.gain || c.gain && by != vnni {
			t.Errorf("%s: 8 bits gain %v by %s", name, gain, by)
		}
	}
}

var some = net.Config{Blocks: 6, Channels: 64, HeadChannels: 32, Hidden: 64}

// testMachine has two paths and a folder, and counts its measurements, each of which has other rates.
func testMachine(t *testing.T) (m machine, count *atomic.Int64) {
	count = new(atomic.Int64)
	m = machine{dir: filepath.Join(t.TempDir(), "new", "cpu"), processor: "P", program: "v1", paths: []kernel.Path{"a", "b"}, patience: time.Minute}
	m.measure = func(blocks, channels int) map[kernel.Path]float64 {
		return map[kernel.Path]float64{"a": float64(blocks), "b": float64(count.Add(1))}
	}
	return m, count
}

// Rates are measured once and kept. Others that come meanwhile wait, and all have the same.
func TestRatesAreKept(t *testing.T) {
	m, count := testMachine(t)
	inner := m.measure
	m.measure = func(blocks, channels int) map[kernel.Path]float64 {
		time.Sleep(20 * time.Millisecond) // so that the others come
		return inner(blocks, channels)
	}
	want := map[kernel.Path]float64{"a": 6, "b": 1}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := m.rates(some); err != nil || !maps.Equal(got, want) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	group.Wait()
	other := some
	other.Blocks = 7
	if got, err := m.rates(other); err != nil || got["a"] != 7 || got["b"] != 2 {
		t.Errorf("another shape: %v, %v", got, err)
	}
	m.with(func(m *machine) { m.processor = "Q" }).check(t, 3) // its file stands beside that of P
	m.check(t, 1)
	if count.Load() != 3 || len(gametest.Must(os.ReadDir(m.dir))(t)) != 3 {
		t.Errorf("%d measurements", count.Load())
	}
	m.with(func(m *machine) { m.program = "v2" }).check(t, 4)
	m.with(func(m *machine) { m.program = "v2" }).check(t, 4)
}

func (m machine) with(change func(*machine)) machine { change(&m); return m }

// check has the rates of one measurement.
func (m machine) check(t *testing.T, number int) {
	t.Helper()
	if got, err := m.rates(some); err != nil || got["b"] != float64(number) {
		t.Errorf("%v, %v; want those of measurement %d", got, err, number)
	}
}

// A file that is damaged, too long or another's is measured anew.
func TestRatesDamaged(t *testing.T) {
	m, _ := testMachine(t)
	path := m.path(6, 64)
	m.check(t, 1)
	whole := gametest.Must(os.ReadFile(path))(t)
	foreign := func(change func(*measurement)) []byte {
		var was measurement
		gametest.OK(t, durable.Unmarshal(whole, &was))
		change(&was)
		return gametest.Must(json.Marshal(was))(t)
	}
	gametest.OK(t, os.WriteFile(path, foreign(func(*measurement) {}), 0o600)) // without a checksum
	m.check(t, 1)
	for i, text := range [][]byte{
		nil, []byte("null"), whole[:len(whole)/2], slices.Repeat([]byte{' '}, 1<<16+1), []byte(strings.Replace(string(whole), `"b": 1`, `"b": 8`, 1)),
		foreign(func(m *measurement) { m.Processor = "Q" }), foreign(func(m *measurement) { m.Program = "" }), foreign(func(m *measurement) { m.Blocks++ }),
		foreign(func(m *measurement) { m.Channels++ }), foreign(func(m *measurement) { delete(m.Rates, "a") }), foreign(func(m *measurement) { m.Rates["a"] = -1 }),
		foreign(func(m *measurement) { m.Rates["c"] = 1 }),
	} {
		gametest.OK(t, os.WriteFile(path, text, 0o600))
		m.check(t, i+2)
		m.check(t, i+2)
	}
}

// Without a writable folder nothing is measured, and no process waits forever.
func TestRatesWithoutCache(t *testing.T) {
	m, count := testMachine(t)
	gametest.OK(t, os.MkdirAll(m.path(6, 64), 0o755)) // in the file's place
	for name, m := range map[string]machine{
		"no folder": m.with(func(m *machine) { m.dir = "" }), "no path": m.with(func(m *machine) { m.paths = m.paths[:1] }), "in the way": m,
		"not a folder": m.with(func(m *machine) { m.dir = filepath.Join(os.DevNull, "cpu") }),
	} {
		if got, err := m.rates(some); got != nil || err == nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	busy := m.with(func(m *machine) { m.dir, m.patience = t.TempDir(), 50*time.Millisecond })
	w := gametest.Must(durable.Create(busy.path(6, 64)))(t)
	defer w.Abort()
	if got, err := busy.rates(some); got != nil || !errors.Is(err, durable.ErrInUse) || count.Load() != 0 {
		t.Errorf("another process measures for ever: %v, %v", got, err)
	}
}

// This machine measures its paths, keeps the rates, and chooses as they say.
func TestMeasured(t *testing.T) {
	t.Setenv("EVALD_CACHE_DIR", t.TempDir())
	small := gametest.Must(net.ParseConfig("2x16"))(t)
	first, second := Choose(small, true), Choose(small, true)
	if first.Path != second.Path || !maps.Equal(first.Rates, second.Rates) || first.Why != second.Why {
		t.Errorf("%+v, then %+v", first, second)
	}
	if got := Measured(); first.Rates != nil && !slices.Equal(got, []net.Config{small}) || first.Rates == nil && got != nil {
		t.Errorf("measured are %v", got)
	}
}
