package web

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/chromedp"

	"github.com/evald/evald/cmd/evald/internal/service"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
)

// A browser that opens the page of a service with tokens asks for one, once, and the page then works with it.
func TestPageAsksForToken(t *testing.T) {
	h := handler(t, Config{Limits: Limits{Time: time.Second / 10}})
	b := open(t, h, "/") // a tab
	url := servePage(t, h, "page s3cret\n")
	asked := atomic.Int32{}
	in := func(actions ...chromedp.Action[chromedp.Void]) { // an event's handler must not wait
		go func() { _ = chromedp.Do(b.ctx, actions...) }()
	}
	err := chromedp.Listen(b.ctx, func(event any) {
		switch e := event.(type) {
		case *fetch.EventRequestPaused:
			in(command(fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: e.RequestID}))
		case *fetch.EventAuthRequired:
			password := "wrong"
			if asked.Add(1) > 1 {
				password = "s3cret"
			}
			in(command(fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{
				RequestID:             e.RequestID,
				AuthChallengeResponse: &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseProvideCredentials, Username: "me", Password: password},
			}))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	b.do(command(fetch.Enable, fetch.EnableParams{HandleAuthRequests: &yes}), chromedp.Navigate(url))
	b.says("#status", "Red to move: you")
	b.click(column(3))
	b.says("#moves, #status", "Red played 4. ")
	if n := asked.Load(); n != 2 {
		t.Errorf("the browser asked %d times, want 2: the first answer is wrong", n)
	}
}

// servePage serves a page behind tokens and returns its URL.
func servePage(t *testing.T, h *Handler, tokens string) string {
	t.Helper()
	e, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		t.Fatal(err)
	}
	c := service.Config{
		Rules: game.Connect4, Models: []string{"bitsquares"},
		Load: func(string) (service.Loaded, error) {
			return service.Loaded{Evaluator: e, Version: "1", Platform: service.HeuristicPlatform}, nil
		},
		Batching: service.DefaultBatching, Search: service.DefaultSearch, Limits: service.DefaultLimits,
		Log: slog.New(slog.DiscardHandler), DrainTime: 10 * time.Second,
	}
	if c.Tokens, err = service.ReadTokens(strings.NewReader(tokens)); err != nil {
		t.Fatal(err)
	}
	s, err := service.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.SetPage(h, h.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
