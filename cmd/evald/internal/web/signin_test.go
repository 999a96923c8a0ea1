package web

import (
	"context"
	"encoding/base64"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"

	"github.com/evald/evald/cmd/evald/service"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
)

// After a browser has asked its user for the token, it sends that with each request, and the page works, including requests
// that change something. (That it asks follows from the 401 and its challenge, which a test of the service checks.)
func TestPageWithToken(t *testing.T) {
	h := handler(t, Config{Limits: Limits{Time: time.Second / 10}})
	url := servePage(t, h, "page s3cret\n")
	headers := network.Headers{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("me:s3cret"))}
	b := openURL(t, url, "/", command(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: headers}))
	b.says("#status", "Red to move: you")
	b.click(column(3))
	b.until("/Yellow played .. Red to move: you/.test(document.getElementById('status').textContent)")
}

// servePage serves a page behind tokens and returns its URL.
func servePage(t *testing.T, h *Handler, tokens string) string {
	t.Helper()
	e := gametest.Must(heuristic.New(eval.Bitsquares))(t)
	c := service.Config{
		Rules: game.Connect4, Models: []service.Model{{Name: "bitsquares"}},
		Load: func(service.Model) (service.Loaded, error) {
			return service.Loaded{Backend: e.Backend(), Version: "1", Platform: service.HeuristicPlatform}, nil
		},
		DrainTime: 10 * time.Second,
	}
	c.Tokens = gametest.Must(service.ReadTokens(strings.NewReader(tokens)))(t)
	s := gametest.Must(service.New(c))(t)
	s.SetPage(h, h.Close)
	l := gametest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, service.Listeners{HTTP: l}) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return "http://" + l.Addr().String()
}
