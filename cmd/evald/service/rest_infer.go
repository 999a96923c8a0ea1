package service

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/grpc/status"
)

// jsonLength is the header of the binary tensor extension: the number of bytes of the body that are JSON. Binary tensors follow them.
const jsonLength = "Inference-Header-Content-Length"

// restInfer answers POST /v2/models/NAME/infer, with or without /versions/VERSION.
func (s *Server) restInfer(w http.ResponseWriter, r *http.Request) error {
	requestOf(r.Context()).asked = time.Now()
	c, err := s.restCall(w, r)
	if err != nil {
		return err
	}
	if strings.Contains(r.Header.Get("Accept"), eventStream) {
		return s.restEvents(w, r, c)
	}
	if err := s.infer(r.Context(), c.request); err != nil {
		return err
	}
	defer c.answer.release()
	head, tail := c.encode("")
	if tail == nil {
		w.Header().Set("Content-Type", "application/json")
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set(jsonLength, strconv.Itoa(len(head)))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(head)+len(tail)))
	if _, err := w.Write(head); err == nil {
		_, _ = w.Write(tail) // the client may be gone
	}
	return nil
}

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// restEvents answers with server-sent events, one for each answer. The parameter triton_final_response is true in the last one.
func (s *Server) restEvents(w http.ResponseWriter, r *http.Request, c *restCall) error {
	if c.binary || len(c.binaryFor) > 0 {
		return invalid("outputs: events are text and have no binary tensors")
	}
	began := false
	send := func(event []byte) error {
		if !began {
			w.Header().Set("Content-Type", eventStream)
			w.Header().Set("Cache-Control", "no-store")
			began = true
		}
		if _, err := w.Write(fmt.Appendf(nil, "data: %s\n\n", event)); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	}
	c.report = func() error {
		event, _ := c.encode("false")
		return send(event)
	}
	err := s.infer(r.Context(), c.request)
	defer c.answer.release()
	switch {
	case err == nil:
		event, _ := c.encode("true")
		_ = send(event) // the client may be gone
	case began:
		event, _ := json.Marshal(errorBody{status.Convert(err).Message()})
		_ = send(event)
	default:
		return err
	}
	return nil
}

// encode returns the answer's JSON (head) and the binary tensors that follow it (tail), nil if there are none. last is the value of
// triton_final_response, "true" or "false", or "" to leave it out.
func (c *restCall) encode(last string) (head, tail []byte) {
	size := 1 << 10
	for i := range c.answer.outputs {
		size += 3 * len(c.answer.outputs[i].raw) // a float32 takes 4 bytes raw, about 11 as JSON
	}
	b := make([]byte, 0, size)
	b = append(b, `{"model_name":`...)
	b = appendString(b, c.model)
	b = append(b, `,"model_version":`...)
	b = appendString(b, c.answer.version)
	if c.id != "" {
		b = append(b, `,"id":`...)
		b = appendString(b, c.id)
	}
	var parameters []string
	if c.rule != "" {
		parameters = append(parameters, fmt.Sprintf("%q:%q", ruleParameter, c.rule))
	}
	if last != "" {
		parameters = append(parameters, fmt.Sprintf("%q:%s", finalParameter, last))
	}
	if len(parameters) > 0 {
		b = fmt.Appendf(b, `,"parameters":{%s}`, strings.Join(parameters, ","))
	}
	b = append(b, `,"outputs":[`...)
	for i := range c.answer.outputs {
		o := &c.answer.outputs[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"name":%q,"datatype":%q,"shape":[%d,%d],`, o.name, o.datatype, o.shape[0], o.shape[1])
		isBinary, named := c.binaryFor[o.name]
		if isBinary || !named && c.binary {
			b = fmt.Appendf(b, `"parameters":{"binary_data_size":%d}}`, len(o.raw))
			tail = append(tail, o.raw...)
			continue
		}
		b = appendValues(append(b, `"data":[`...), o)
		b = append(b, "]}"...)
	}
	return append(b, "]}"...), tail
}

// appendValues writes a tensor's values as JSON.
func appendValues(b []byte, t *tensor) []byte {
	for raw, first := t.raw, true; len(raw) > 0; first = false {
		if !first {
			b = append(b, ',')
		}
		switch t.datatype {
		case floatType:
			b = strconv.AppendFloat(b, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))), 'g', -1, 32)
			raw = raw[4:]
		case int32Type:
			b = strconv.AppendInt(b, int64(int32(binary.LittleEndian.Uint32(raw))), 10)
			raw = raw[4:]
		case uint64Type:
			b = strconv.AppendUint(b, binary.LittleEndian.Uint64(raw), 10)
			raw = raw[8:]
		case uint8Type:
			b = strconv.AppendUint(b, uint64(raw[0]), 10)
			raw = raw[1:]
		case bytesType:
			value, rest, _ := cutBytes(raw) // cannot fail: appendBytes wrote it
			b, raw = appendString(b, value), rest
		}
	}
	return b
}

// appendString writes a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString[T string | []byte](b []byte, s T) []byte {
	b, _ = jsontext.AppendQuote(b, s) // its only error is about bytes that are not UTF-8
	return b
}
