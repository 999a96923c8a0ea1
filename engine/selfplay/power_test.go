package selfplay_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

var (
	powerSeed  = flag.Uint64("power.seed", 0, "the first seed of TestPower")
	powerSeeds = flag.Int("power.seeds", 0, "how many seeds TestPower tries; 0: some, and many in make soak")
)

const (
	powerGames = 30
	powerMost  = 4 // games in a file of records
)

// power is a run that is killed and loses its power again and again.
type power struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	disk   *durabletest.Disk
	config selfplay.Config
	games  []*selfplay.Game
	told   map[int]bool // games whose Add has returned nil
}

const powerDir = "/runs/a/0"

// fatal names the seed: -power.seed N -power.seeds 1 repeats it.
func (p *power) fatal(format string, values ...any) {
	p.t.Helper()
	p.t.Fatalf("seed %d: %s", p.seed, fmt.Sprintf(format, values...))
}

// ill reports whether the disk refuses to write.
func (p *power) ill() bool { return p.disk.Full || p.disk.Failing }

// life is the life of one process. It is killed at a random operation, or closes the store; closed is true if it has all games then.
func (p *power) life() (closed bool) {
	defer func() {
		if r := recover(); r != nil && r != durabletest.ErrKilled { //nolint:errorlint // the value of a panic
			panic(r)
		}
	}()
	rate := math.Exp(-2 - 5*p.random.Float64())
	p.disk.Hook = func(op durabletest.Op) {
		chance := rate
		if op.Name == "syncdir" { // what is between a rename and this is the hardest
			chance *= 10
		}
		if p.random.Float64() < chance {
			panic(durabletest.ErrKilled)
		}
	}
	s, err := selfplay.OpenStoreIn(p.disk, powerDir, p.config, len(p.games), powerMost)
	if err != nil {
		p.fatal("opened again: %v", err)
	}
	has := 0
	for number := range p.games {
		if s.Has(number) {
			has++
		} else if p.told[number] {
			p.fatal("game %d was kept and is lost", number)
		}
	}
	if has != s.Games() {
		p.fatal("%d games are there, and it says %d", has, s.Games())
	}
	for s.Games() < len(p.games) || s.First() < len(p.games) || p.ill() {
		var some []*selfplay.Game
		for range 1 + p.random.IntN(4) {
			some = append(some, p.games[p.random.IntN(len(p.games))])
		}
		if err := s.Add(some...); err == nil {
			for _, g := range some {
				p.told[g.Number] = true
			}
		} else if !p.ill() {
			p.fatal("%v", err)
		}
		p.disk.Full, p.disk.Failing = p.random.IntN(8) == 0, p.random.IntN(8) == 0
		if !p.ill() && p.random.IntN(30) == 0 {
			if err := s.Close(); err != nil {
				p.fatal("%v", err)
			}
			return false
		}
	}
	if err := s.Add(); err != nil { // writes the last file, if the disk refused it
		p.fatal("%v", err)
	}
	if err := s.Close(); err != nil {
		p.fatal("%v", err)
	}
	return true
}

// After any kills and power cuts all games are there that the store has promised, each once, and the files are in the end those of a run
// that nothing disturbs.
func TestPower(t *testing.T) {
	c := config()
	c.Rules, c.Network = "4x4x3", "bitsquares"
	games := make([]*selfplay.Game, powerGames)
	gametest.OK(t, selfplay.Play(t.Context(), bitsquares(t), c, 0, powerGames, nil, func(g *selfplay.Game) error {
		games[g.Number] = g
		return nil
	}))
	quiet := durabletest.NewDisk(rand.New(rand.NewPCG(0, 0)))
	s := gametest.Must(selfplay.OpenStoreIn(quiet, powerDir, c, powerGames, powerMost))(t)
	gametest.OK(t, s.Add(games...))
	gametest.OK(t, s.Close())
	want := quiet.Files("/")
	if got := slices.Sorted(maps.Keys(want)); len(got) != 1+(powerGames+powerMost-1)/powerMost {
		t.Fatalf("files %v", got)
	}

	seeds := 200
	if gametest.Soak() {
		seeds = 20_000
	}
	if *powerSeeds > 0 {
		seeds = *powerSeeds
	}
	for i := range seeds {
		seed := *powerSeed + uint64(i)
		random := rand.New(rand.NewPCG(seed, 1))
		p := &power{t, seed, random, durabletest.NewDisk(random), c, games, map[int]bool{}}
		lives, closed := 0, false
		for ; !closed || p.random.IntN(2) == 0; lives++ {
			closed = p.life()
			p.disk.Full, p.disk.Failing = false, false
			if p.random.IntN(3) == 0 {
				p.disk.Kill()
			} else {
				p.disk.PowerCut()
			}
		}
		for !p.life() { // sweeps what a power cut has brought back
			p.disk.Kill()
		}
		if diff := cmp.Diff(want, p.disk.Files("/")); diff != "" {
			p.fatal("the files after %d lives (-want +got):\n%.1000s", lives, diff)
		}
	}
}
