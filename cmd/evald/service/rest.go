package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

// handler returns the handler of the HTTP port: the protocol below /v2, and the page.
func (s *Server) handler() http.Handler {
	mux, calls := http.NewServeMux(), grpcService{Server: s}
	handle := func(pattern string, g group, answer func(w http.ResponseWriter, r *http.Request) error) {
		mux.Handle(pattern, s.traced(g, s.guard(g, answer)))
	}
	// Triton's clients use the status alone, KServe's the body.
	state := func(w http.ResponseWriter, body map[string]any, ok bool) error {
		code := http.StatusOK
		if !ok {
			code = http.StatusBadRequest
		}
		writeJSON(w, code, body)
		return nil
	}
	describe := func(pattern string, message func(ctx context.Context, model, version string) (proto.Message, error)) {
		handle("GET "+pattern, metadataCalls, func(w http.ResponseWriter, r *http.Request) error {
			m, err := message(r.Context(), r.PathValue("model"), r.PathValue("version"))
			if err != nil {
				return err
			}
			return writeMessage(w, r, proto.Size(m), func() any { return jsonOf(m.ProtoReflect()) })
		})
	}
	statistics := func(ctx context.Context, model, version string) (proto.Message, error) {
		return calls.ModelStatistics(ctx, &kserve.ModelStatisticsRequest{Name: model, Version: version})
	}
	handle("GET /v2/health/live", healthCalls, func(w http.ResponseWriter, _ *http.Request) error {
		return state(w, map[string]any{"live": true}, true)
	})
	handle("GET /v2/health/ready", healthCalls, func(w http.ResponseWriter, _ *http.Request) error {
		ready := s.isReady()
		return state(w, map[string]any{"ready": ready}, ready)
	})
	describe("/v2", func(ctx context.Context, _, _ string) (proto.Message, error) { return calls.ServerMetadata(ctx, nil) })
	describe("/v2/models/stats", statistics)
	for _, prefix := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		handle("GET "+prefix+"/ready", healthCalls, func(w http.ResponseWriter, r *http.Request) error {
			name := r.PathValue("model")
			m, err := s.models.find(name, r.PathValue("version"))
			ready := err == nil && s.isReady()
			body := map[string]any{"name": name, "ready": ready}
			if err == nil && s.models.failure(m.ref) != "" { // the failure may contain names of files, which only the index may show
				body["reason"] = "the last reload failed, and the weights before it serve"
			}
			return state(w, body, ready)
		})
		describe(prefix, func(ctx context.Context, model, version string) (proto.Message, error) {
			return calls.ModelMetadata(ctx, &kserve.ModelMetadataRequest{Name: model, Version: version})
		})
		describe(prefix+"/config", func(ctx context.Context, model, version string) (proto.Message, error) {
			c, err := calls.ModelConfig(ctx, &kserve.ModelConfigRequest{Name: model, Version: version})
			return c.GetConfig(), err
		})
		describe(prefix+"/stats", statistics)
		handle("POST "+prefix+"/infer", inferenceCalls, s.restInfer)
	}
	handle("POST /v2/repository/index", repositoryCalls, s.restIndex)
	handle("POST /v2/repository/models/{model}/load", repositoryCalls, s.restLoad)
	handle("POST /v2/repository/models/{model}/unload", repositoryCalls, func(_ http.ResponseWriter, r *http.Request) error {
		_, err := calls.RepositoryModelUnload(r.Context(), &kserve.RepositoryModelUnloadRequest{ModelName: r.PathValue("model")})
		return err
	})
	mux.HandleFunc("/v2/", func(w http.ResponseWriter, r *http.Request) {
		what := short.Text(r.Method) + " " + short.Text(r.URL.Path)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if _, pattern := mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); strings.HasPrefix(pattern, method) {
				w.Header().Set("Allow", method)
				writeJSON(w, http.StatusMethodNotAllowed, errorBody{what + ": the method must be " + method})
				return
			}
		}
		writeJSON(w, http.StatusNotFound, errorBody{what + " is no call of the protocol"})
	})
	if s.page != nil {
		handle("/", pageCalls, func(w http.ResponseWriter, r *http.Request) error {
			s.page.ServeHTTP(w, r)
			return nil
		})
	}
	return mux
}

func (s *Server) restIndex(w http.ResponseWriter, r *http.Request) error {
	var ask struct {
		Ready bool `json:"ready"`
	}
	if err := s.readSmall(w, r, &ask, `{"ready":true}`); err != nil {
		return err
	}
	index, err := grpcService{Server: s}.RepositoryIndex(r.Context(), &kserve.RepositoryIndexRequest{Ready: ask.Ready})
	if err != nil {
		return err
	}
	return writeMessage(w, r, proto.Size(index), func() any { return jsonOf(index.ProtoReflect())["models"] })
}

func (s *Server) restLoad(w http.ResponseWriter, r *http.Request) error {
	var ask struct {
		Parameters map[string]any `json:"parameters"`
	}
	if err := s.readSmall(w, r, &ask, "{}"); err != nil {
		return err
	}
	m := &kserve.RepositoryModelLoadRequest{ModelName: r.PathValue("model"), Parameters: map[string]*kserve.ModelRepositoryParameter{}}
	for name := range ask.Parameters { // the call refuses all of them
		m.Parameters[name] = nil
	}
	_, err := grpcService{Server: s}.RepositoryModelLoad(r.Context(), m)
	return err
}

// smallBody is the maximum length of a request without tensors, in bytes.
const smallBody = 64 << 10

// readSmall reads a body that is empty or a JSON object; example is for the error.
func (s *Server) readSmall(w http.ResponseWriter, r *http.Request, to any, example string) error {
	in, err := s.openBody(w, r, min(s.config.Limits.Body, smallBody))
	if err != nil {
		return err
	}
	text, err := in.rest(in.limit + 1)
	if !errors.Is(err, io.EOF) {
		return in.wrong(err)
	}
	if len(text) > 0 {
		if err := game.DecodeJSON(text, to); err != nil {
			return invalid("body: %v: must be an object such as %s", err, example)
		}
	}
	return in.close()
}

// errorBody is an error in the protocol's form.
type errorBody struct {
	Error string `json:"error"`
}

func writeError(w http.ResponseWriter, err error) {
	code := httpStatus(status.Code(err))
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		code, err = http.StatusRequestEntityTooLarge, fmt.Errorf("body: is longer than %d bytes", large.Limit)
	}
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	writeJSON(w, code, errorBody{status.Convert(err).Message()})
}

// retryAfter is the number of seconds after which a refused client may try again. A full queue empties faster than that.
const retryAfter = 1

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// messageCopies is the memory of converting a message to JSON as a multiple of its size, for names, braces and maps.
const messageCopies = 50

// writeMessage writes a message of size bytes as JSON. It reserves memory for the conversion first, and keeps memory for the text until the
// text is written.
func writeMessage(w http.ResponseWriter, r *http.Request, size int, body func() any) error {
	ask := requestOf(r.Context())
	if err := ask.take(messageCopies * size); err != nil {
		return err
	}
	text, err := json.Marshal(body())
	if err != nil {
		return err
	}
	ask.give(messageCopies*size - cap(text) - 1)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client may be gone
	return nil
}

// jsonOf converts a message to a map with the protocol's names. Unlike protojson it keeps 64-bit numbers as numbers, as clients expect, and
// includes fields that are zero.
func jsonOf(m protoreflect.Message) map[string]any {
	out := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if (f.Message() != nil && !f.IsList() && !f.IsMap() || f.ContainingOneof() != nil) && !m.Has(f) {
			continue
		}
		v := m.Get(f)
		switch {
		case f.IsList():
			all := []any{}
			for k := range v.List().Len() {
				all = append(all, jsonValue(f, v.List().Get(k)))
			}
			out[string(f.Name())] = all
		case f.IsMap():
			all := map[string]any{}
			v.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				all[key.String()] = jsonValue(f.MapValue(), value)
				return true
			})
			out[string(f.Name())] = all
		default:
			out[string(f.Name())] = jsonValue(f, v)
		}
	}
	return out
}

func jsonValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.Message() != nil:
		return jsonOf(v.Message())
	case f.Enum() != nil:
		return string(f.Enum().Values().ByNumber(v.Enum()).Name())
	}
	return v.Interface()
}
