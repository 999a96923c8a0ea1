package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/engine/short"
)

func refuse(status int, field, format string, args ...any) error {
	return answer.Refuse(status, field, format, args...)
}

func bad(field, format string, args ...any) error {
	return refuse(http.StatusBadRequest, field, format, args...)
}

// sendError answers {"error":"..","field":".."}.
func sendError(w http.ResponseWriter, err error) {
	r := answer.Describe(err)
	if r.After > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(r.After))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.Status)
	// A write error means that the client is gone.
	_ = json.NewEncoder(w).Encode(r)
}

// send sends x as JSON.
func send(w http.ResponseWriter, x any) error {
	text, err := json.Marshal(x)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // an error means that the client is gone, which can happen at any time
	return nil
}

// shuttingDown ends the work on questions; a new server may replace this one.
var shuttingDown = &answer.Refusal{Status: http.StatusServiceUnavailable, Text: "the server is shutting down", After: 1}

// serveQuestion returns the handler of a question of package answer. An answer of several objects is
// sent line by line.
func (h *Handler) serveQuestion(name string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		// The server's own deadline is too short for some questions. An error means that the connection supports no deadlines.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.Longest() + lineTime))
		body, done, err := h.body(w, r, name)
		if err != nil {
			return err
		}
		defer done()
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer context.AfterFunc(h.closing, func() { cancel(shuttingDown) })()
		lines := stream{w: w, control: http.NewResponseController(w), encode: json.NewEncoder(w)}
		last, err := h.Ask(ctx, name, body, lines.send)
		switch {
		case lines.begun:
			_ = lines.send(last) // an error means that the client is gone
			return nil
		case err != nil:
			return err
		}
		return send(w, last)
	}
}

// bodyTime is the time in which a long request's body must arrive.
const bodyTime = 5 * time.Second

// body reads the JSON object of a question. A long one is read when it has a place, so that the
// memory of long requests is bounded. The caller must call done, which frees the place.
func (h *Handler) body(w http.ResponseWriter, r *http.Request, name string) (body []byte, done func(), err error) {
	done = func() {}
	if r.Method != http.MethodPost {
		return nil, done, nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, done, refuse(http.StatusUnsupportedMediaType, "", "Content-Type is %q, want application/json", cut(r.Header.Get("Content-Type")))
	}
	most := answer.MaxBody(name)
	if long := r.ContentLength < 0 || r.ContentLength > answer.UsualBody; long && most > answer.UsualBody {
		if err := h.reading.Take(r.Context()); err != nil {
			return nil, done, answer.Busy(err)
		}
		done = h.reading.Leave
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		return body, done, nil
	}
	done()
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, nil, answer.TooLong(name)
	}
	return nil, nil, bad("", "the request ends early: %v", err)
}

// stream sends an answer line by line. If the client reads slowly, the search and the solver wait.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	encode  *json.Encoder
	begun   bool
}

// lineTime is the time in which a client must read a line.
const lineTime = 10 * time.Second

func (s *stream) send(line any) error {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "application/x-ndjson")
		s.w.Header().Set("X-Accel-Buffering", "no") // tells proxies not to buffer the lines
	}
	// If the connection supports no deadlines, a client that does not read is noticed only when it disconnects.
	_ = s.control.SetWriteDeadline(time.Now().Add(lineTime))
	if err := s.encode.Encode(line); err != nil {
		return err
	}
	return s.control.Flush()
}

// cut shortens a text for an error message.
func cut(s string) string { return short.To(s, 82) }
