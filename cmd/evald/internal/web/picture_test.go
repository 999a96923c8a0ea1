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

// With EVALD_SCREENSHOTS it makes page.png, the picture of the page in README: a game in which the last move has just turned a draw into a
// loss, with the network that ships.
func TestPicture(t *testing.T) {
	if os.Getenv("EVALD_SCREENSHOTS") == "" {
		t.Skip("EVALD_SCREENSHOTS names no folder: make pictures")
	}
	e := gametest.Must(networks.Open(networks.Options{Backend: string(eval.CPU)}))(t)
	t.Cleanup(func() { gametest.OK(t, e.Close()) })
	b := open(t, Config{Evaluator: e.Evaluator, Model: "default", Limits: Limits{Time: 5 * time.Second}}, "/#4444442266", size(1280, 860))
	b.until("/Best: /.test(document.getElementById('exact-text').textContent) && /done|time over/.test(document.getElementById('search-text').textContent)")
	b.save("page", chromedp.CaptureScreenshot())
}
