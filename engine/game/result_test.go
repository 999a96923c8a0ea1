package game_test

import (
	"testing"

	"github.com/evald/evald/engine/game"
)

// The gameover codes are in files and in answers of the service: they do not change.
func TestGameOverCodes(t *testing.T) {
	for _, test := range []struct {
		result game.Result
		code   uint8
		wdl    [3]float32
		value  float32
	}{
		{game.Ongoing, 0, [3]float32{}, 0},
		{game.Win, 1, [3]float32{1, 0, 0}, 1},
		{game.Loss, 2, [3]float32{0, 0, 1}, -1},
		{game.Draw, 3, [3]float32{0, 1, 0}, 0},
	} {
		if got := test.result.GameOver(); got != test.code || got >= game.GameOvers {
			t.Errorf("%v: gameover code %d, want %d", test.result, got, test.code)
		}
		if got := test.result.WDL(); got != test.wdl {
			t.Errorf("%v: WDL %v, want %v", test.result, got, test.wdl)
		}
		if got := test.result.Value(); got != test.value || test.result.Flip().Value() != -test.value {
			t.Errorf("%v: value %v, of the other side %v", test.result, got, test.result.Flip().Value())
		}
	}
}
