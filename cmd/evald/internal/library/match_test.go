package library

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
)

const twoFunctions = `{"players":[{"name":"even"},{"name":"uct","agent":"uct:sims=8"},{"name":"odd"}],"games":20,"parallel":16,"search":{"visits":8,"exact":false}}`

// noEvaluators is for matches without evaluators.
func noEvaluators(int64) (*Evaluator, error) { return nil, ErrLost }

// Each function of a match is asked by its number, with batches of many games, and the result has
// the games of every pair.
func TestMatch(t *testing.T) {
	_, b, err := Board("5x4x4")
	gametest.OK(t, err)
	w := gametest.Must(Match(b, twoFunctions, noEvaluators))(t)
	defer w.Release()
	asked := map[int]int{}
	for {
		r := gametest.Must(w.Wait(time.Minute))(t)
		if r.Event == Ended {
			break
		}
		if _, err := w.Result(); err == nil {
			t.Fatal("a result before the end")
		}
		if r.Event == Asked {
			r.Ask.Use(func(b *eval.Batch) {
				even(b)
				asked[r.Ask.Function] = max(asked[r.Ask.Function], len(b.Pos))
			})
			gametest.OK(t, r.Ask.Answer(nil))
		}
	}
	var result MatchResult
	gametest.OK(t, json.Unmarshal([]byte(gametest.Must(w.Result())(t)), &result))
	if len(asked) != 2 || asked[0] < 8 || asked[1] < 8 {
		t.Errorf("functions with their largest batches %v, want 0 and 1 with 8 rows or more of 16 games", asked)
	}
	done, all := w.Progress()
	if result.Table.Games != 60 || len(result.Table.Meetings) != 3 || done != 60 || all != 60 {
		t.Errorf("%d games, %d meetings, %d of %d done", result.Table.Games, len(result.Table.Meetings), done, all)
	}
}

// A match that is given up while its functions are asked, or whose function fails, ends and leaves
// nothing behind.
func TestMatchGivenUp(t *testing.T) {
	_, b, err := Board("5x4x4")
	gametest.OK(t, err)
	for _, failing := range []bool{false, true} {
		w := gametest.Must(Match(b, twoFunctions, noEvaluators))(t)
		for asks := 0; asks < 5; {
			if r := gametest.Must(w.Wait(time.Minute))(t); r.Event == Asked {
				if asks++; asks == 5 && !failing {
					break // without an answer
				}
				answer := errors.New("broken")
				if asks < 5 {
					r.Ask.Use(even)
					answer = nil
				}
				if err := r.Ask.Answer(answer); !errors.Is(err, answer) {
					t.Error(err)
				}
			}
		}
		w.Release()
		if _, err := w.Result(); err == nil {
			t.Error("a match that was given up has a result")
		}
	}
}

func TestMatchRefused(t *testing.T) {
	_, b, err := Board("5x4x4")
	gametest.OK(t, err)
	const two = `"players":[{"name":"a"},{"name":"b"}]`
	for options, says := range map[string]string{
		`{"players":[{"name":"a"}]}`:                                      "there are 1, and a match has 2 or more",
		`{` + two + `,"games":3}`:                                         "games is 3, and must be even",
		`{` + two + `,"games":10000002}`:                                  "more than 10000000 games",
		`{` + two + `,"search":{"visits":0}}`:                             "options of the search: visits is 0, must be",
		`{` + two + `,"nonsense":1}`:                                      "options of the match: nonsense is unknown",
		`{"players":[{"name":"a"},{"name":"b","agent":"x"}]}`:             `players: "b" is agent "x": there are `,
		`{"players":[{"name":"a"},{"name":"b","evaluator":7}],"games":2}`: ErrLost.Error(),
	} {
		if _, err := Match(b, options, noEvaluators); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", options, err, says)
		}
	}
}
