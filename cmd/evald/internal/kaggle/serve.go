package kaggle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/net/netutil"

	"github.com/evald/evald/cmd/evald/service/origin"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/short"
)

// Limits of clients. Kaggle's bodies have about a kilobyte and arrive at once. Beyond maxConnections, new connections wait until others
// end.
const (
	maxBody        = 64 << 10
	bodyTime       = 5 * time.Second
	maxConnections = 256
)

// Handler answers Kaggle's requests to an agent behind a URL. It answers POST / with the action "act" and an observation by
// {"action": column}, and anything else by {"error": text} with a status of 400 or more. It also logs errors, because Kaggle shows only the
// status, positions that no game reaches, and moves that are not the agent's own.
type Handler struct {
	Players *Players
	Log     *log.Logger

	patience time.Duration // replaces bodyTime in tests; 0: bodyTime
}

func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The deadline for writing ends connections whose clients do not read answers. It begins after the move, which may take longer.
	connection := http.NewResponseController(w)
	_ = connection.SetWriteDeadline(time.Time{}) // removes the deadline of the previous answer
	action, status, err := h.answer(w, r)
	_ = connection.SetWriteDeadline(time.Now().Add(bodyTime)) // fails only for the writers of tests
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err != nil {
		h.Log.Printf("%s %s from %s: %v", short.Text(r.Method), short.Text(r.URL.Path), r.RemoteAddr, err)
	}
	_ = json.NewEncoder(w).Encode(reply(action, err)) // the client may be gone
}

// reply returns the JSON answer to Kaggle or main.py.
func reply(action int, err error) any {
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return map[string]int{"action": action}
}

func (h Handler) answer(w http.ResponseWriter, r *http.Request) (action, status int, err error) {
	var site *origin.Policy // nil refuses requests from any other site's page
	if status, err := site.Check(r); err != nil {
		return 0, status, err
	}
	if r.URL.Path != "/" {
		return 0, http.StatusNotFound, fmt.Errorf("path %s: the agent is at /", short.Quote(r.URL.Path))
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return 0, http.StatusMethodNotAllowed, fmt.Errorf("method %s: must be POST", short.Quote(r.Method))
	}
	body, err := h.read(w, r)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return 0, http.StatusRequestEntityTooLarge, fmt.Errorf("body: is longer than %d bytes", maxBody)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, http.StatusRequestTimeout, errors.New("body: did not arrive in time")
	}
	if err != nil {
		return 0, http.StatusBadRequest, fmt.Errorf("body: %w", err)
	}
	turn, err := parseAct(body)
	if err != nil {
		return 0, http.StatusBadRequest, err
	}
	if turn.Odd != nil {
		h.Log.Printf("POST / from %s: playing on: %v", r.RemoteAddr, turn.Odd)
	}
	action, instead, err := h.Players.Move(r.Context(), turn)
	if instead != nil {
		h.Log.Printf("POST / from %s: %v", r.RemoteAddr, instead)
	}
	if _, unsupported := errors.AsType[*eval.UnsupportedError](err); unsupported {
		return 0, http.StatusBadRequest, err
	} else if err != nil {
		return 0, http.StatusInternalServerError, err
	}
	return action, http.StatusOK, nil
}

// read reads the request's body, which must arrive within bodyTime. (http.Server's ReadTimeout would also limit the move.) If the body is
// late, the deadline stays, so that the server answers without waiting for the rest of the body.
func (h Handler) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	connection := http.NewResponseController(w)
	if err := connection.SetReadDeadline(time.Now().Add(cmp.Or(h.patience, bodyTime))); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, err
	}
	return body, connection.SetReadDeadline(time.Time{})
}

// Serve answers on l until ctx ends. Then it accepts no more requests, and returns when those in progress are answered.
func Serve(ctx context.Context, l net.Listener, h Handler) error {
	server := &http.Server{
		Handler: h,
		// Requests are still answered after ctx has ended.
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ReadHeaderTimeout: bodyTime,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          h.Log,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(netutil.LimitListener(l, maxConnections)) }()
	select {
	case err := <-failed:
		return fmt.Errorf("kaggle: serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	// Shutdown returns, because each move has a time limit.
	err := server.Shutdown(context.WithoutCancel(ctx))
	<-failed
	return err
}
