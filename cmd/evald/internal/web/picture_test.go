package web

import (
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	networks "github.com/evald/evald/nn/open"
)

// With EVALD_PICTURE=FILE it makes the picture of the page in README: a game in which a move has just turned a win into a draw, with the network
// that ships.
func TestPicture(t *testing.T) {
	path := os.Getenv("EVALD_PICTURE")
	if path == "" {
		t.Skip("EVALD_PICTURE names no file: make pictures")
	}
	e := gametest.Must(networks.Evaluator(networks.Options{Backend: string(eval.CPU)}))(t)
	t.Cleanup(func() { gametest.OK(t, e.Close()) })
	b := open(t, Config{Evaluator: e.Evaluator, Model: "default", Limits: Limits{Time: 5 * time.Second}}, "/#4444442266", size(1280, 860))
	b.until("/Best: /.test(document.getElementById('exact-text').textContent) && /done|time over/.test(document.getElementById('search-text').textContent)")
	gametest.OK(t, os.WriteFile(path, gametest.Must(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(t), 0o644))
}
