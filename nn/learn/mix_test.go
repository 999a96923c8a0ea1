package learn_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record/recordtest"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/nn/learn"
	"github.com/evald/evald/nn/net"
)

// tinyMix is a run of two games of a second or two, with the values that follow from the boards.
func tinyMix(t testing.TB) learn.Config {
	c := learn.DefaultConfig(gametest.Must(game.ParseMix("3x3x3free,4x4x3=2"))(t))
	c.Network, c.Seed, c.FirstGames, c.Games, c.Batch = "1x8", 5, 45, 30, 64
	c.SelfPlay.Visits, c.SelfPlay.FastVisits = 12, 6
	c.GateGames, c.Opponents, c.OpponentGames = 24, []string{"random"}, 6
	c.Positions, c.Visits = 30, []int{0, 8}
	return c
}

// Each game has its share of the games, of the positions and of the matches, and settings by its board's size. Networks are measured on
// each game and on all together.
func TestSeveralGames(t *testing.T) {
	c, dir := tinyMix(t), t.TempDir()
	c.Rules, c.FirstGames, c.Games, c.Elo1 = "4x4x3=2,6x5x4,3x3x3free=0.001", 30, 12, 0.1 // with no early verdict
	gametest.OK(t, learnBy(t.Context(), onGorgonia, dir, c, 2, func(string) {}))
	all := generations(t, dir)
	type board struct {
		Games                 [2]int // of each generation
		Opening, Temperature  int    // plies
		Visits                int    // of the heuristic
		Pairs                 int    // of the gate
		GateVisits, Positions int
	}
	got := map[string]board{}
	for _, rules := range []string{"4x4x3", "6x5x4", "3x3x3free"} {
		var b board
		for g := range all {
			games := filepath.Join(dir, fmt.Sprintf("%03d", g), "games", rules)
			for _, s := range gametest.Must(durable.Shards(games))(t) {
				b.Games[g] += s.Games()
				for _, r := range recordtest.Read(t, s.Path) {
					if r.Rules.String() != rules {
						t.Fatalf("%s has a record of %v", s.Path, r.Rules)
					}
				}
			}
			if g == 0 {
				var how selfplay.Config
				gametest.OK(t, durable.Unmarshal(gametest.Must(os.ReadFile(filepath.Join(games, selfplay.ConfigFile)))(t), &how))
				b.Opening, b.Temperature, b.Visits = how.OpeningPlies, how.TemperaturePlies, how.Visits
			}
		}
		text := gametest.Must(os.ReadFile(filepath.Join(dir, "001", "gate-"+rules+".parquet")))(t)
		match := gametest.Must(parquet.OpenFile(bytes.NewReader(text), int64(len(text))))(t)
		b.Pairs = int(match.NumRows()) / 2
		var settings arena.Settings
		about, _ := match.Lookup("evald.match")
		gametest.OK(t, json.Unmarshal([]byte(about), &settings))
		if _, err := fmt.Sscanf(settings.Players[0], "mcts:model=001,visits=%d,", &b.GateVisits); err != nil || settings.Rules != rules {
			t.Errorf("%s: the gate has settings %+v, error %v", rules, settings, err)
		}
		for _, kind := range sample.Kinds() {
			b.Positions += len(readPositions(t, filepath.Join(dir, "positions", rules, string(kind)+".txt")))
		}
		got[rules] = b
	}
	want := map[string]board{
		"4x4x3":     {[2]int{20, 8}, 6, 6, 12, 8, 32, got["4x4x3"].Positions},
		"6x5x4":     {[2]int{10, 4}, 12, 12, 120, 4, 64, got["6x5x4"].Positions},
		"3x3x3free": {[2]int{1, 1}, 3, 3, 12, 1, 32, got["3x3x3free"].Positions},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("games (-want +got):\n%s", diff)
	}
	if all[0].Games != 31 || all[1].Games != 13 || all[1].Gate.Games != 26 || all[1].Matches[0].Games != 8 {
		t.Errorf("games %d and %d, of the gate %d, with the opponent %d; want 31, 13, 26, 8", all[0].Games, all[1].Games, all[1].Gate.Games, all[1].Matches[0].Games)
	}
	sum := 0
	measured := map[string]int{}
	for _, a := range all[1].Accuracy {
		if a.Visits == 8 && a.Solver {
			measured[a.Rules+" "+a.Kind] = a.Positions
		}
	}
	for rules, b := range got {
		if sum += b.Positions; b.Positions < 30 || measured[rules+" all"] != b.Positions {
			t.Errorf("%s: measured on %d positions of %d", rules, measured[rules+" all"], b.Positions)
		}
	}
	if kinds := measured[" random"] + measured[" plausible"] + measured[" openings"]; len(measured) != 7 || measured[" all"] != sum || kinds != sum {
		t.Errorf("measured on %v, want %d positions in all", measured, sum)
	}
}

// A run of one game has the defaults of its board. Those of several games follow from the largest one, or for each game from its board.
// The preset fast takes tables for 7x6x4 alone, and not if the run begins with a network of convolutions.
func TestDefaultConfig(t *testing.T) {
	text := func(rules string) string {
		c := learn.DefaultConfig(gametest.Must(game.ParseMix(rules))(t))
		c.Rules, c.SelfPlay.Rules = "", ""
		return string(gametest.Must(json.Marshal(c))(t))
	}
	for _, rules := range []string{"4x4x3", "7x6x4"} {
		if strings.Contains(text(rules), "-1") {
			t.Errorf("%s: %s", rules, text(rules))
		}
	}
	small := net.Config{Blocks: 1, Channels: 8, HeadChannels: 4, Hidden: 8}
	for _, run := range []struct {
		rules, network string
		begins         bool
	}{{"4x4x3,7x6x4", "6x64", false}, {"7x6x4", "1x8/4/8", true}, {"7x6x4", "pattern128x32x32", false}} {
		c := learn.DefaultConfig(gametest.Must(game.ParseMix(run.rules))(t))
		if run.begins {
			gametest.OK(t, c.BeginWith(random(t, small)))
		}
		gametest.OK(t, c.Use(learn.Fast))
		tables := run.network == "pattern128x32x32"
		if gametest.OK(t, c.Validate()); c.Network != run.network || c.SelfPlay.Exact == 0 || (c.Games > 100_000) != tables {
			t.Errorf("%s, preset fast: network %s, %d games", run.rules, c.Network, c.Games)
		}
	}
	if several, large := text("4x4x3,7x6x4"), text("7x6x4"); strings.Count(several, ":-1") != 4 || !strings.Contains(large, `"network":"6x64"`) || !strings.Contains(several, `"network":"6x64"`) {
		t.Errorf("several games: %s", several)
	}
}
