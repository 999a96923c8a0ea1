package service

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// jsonLength is the header of the binary tensor extension: how much of the body is JSON; tensors follow.
const jsonLength = "Inference-Header-Content-Length"

// restInfer answers POST ../infer.
func (s *Server) restInfer(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	body, err := s.readBody(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	ask, err := s.restCall(body, r.Header.Get(jsonLength))
	if err == nil {
		entryOf(r.Context()).id = ask.id
		ask.model, ask.version, ask.began = r.PathValue("model"), r.PathValue("version"), began
		err = s.restAnswer(w, r, ask)
	}
	if err != nil {
		writeError(w, err)
	}
}

func (s *Server) restAnswer(w http.ResponseWriter, r *http.Request, ask *restCall) error {
	a, err := s.infer(r.Context(), &ask.call)
	if err != nil {
		return err
	}
	defer a.release()
	head, tail, err := a.rest(ask)
	if err != nil {
		return err
	}
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

// tooLarge is a body over the limit, which HTTP has a status of its own for.
type tooLarge struct{ limit int }

func (e tooLarge) Error() string { return fmt.Sprintf("body: is longer than %d bytes", e.limit) }

// readBody is the request's body, decompressed, of bounded length and in bounded time.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit, connection := s.config.Limits.Body, http.NewResponseController(w)
	if err := connection.SetReadDeadline(time.Now().Add(s.config.Limits.Receive)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, status.Errorf(codes.Internal, "body: %v", err)
	}
	var in io.Reader = http.MaxBytesReader(w, r.Body, int64(limit))
	var err error
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		in, err = gzip.NewReader(in)
	case "deflate":
		in, err = zlib.NewReader(in)
	default:
		return nil, invalid("Content-Encoding %q: must be gzip or deflate", clip(encoding))
	}
	if err != nil {
		return nil, bodyError(err, limit)
	}
	var body bytes.Buffer
	// What the header promises may never come: memory is for what has.
	body.Grow(int(min(max(r.ContentLength, 0), firstRead)) + bytes.MinRead)
	n, err := body.ReadFrom(io.LimitReader(in, int64(limit)+1))
	if err != nil {
		return nil, bodyError(err, limit)
	}
	if n > int64(limit) {
		return nil, tooLarge{limit}
	}
	// A deadline that passes while the request is answered would end the connection.
	if err := connection.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, status.Errorf(codes.Internal, "body: %v", err)
	}
	return body.Bytes(), nil
}

// firstRead is how much of a body is made room for before it is here.
const firstRead = 64 << 10

func bodyError(err error, limit int) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge{limit}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return status.Error(codes.DeadlineExceeded, "body: has not come to its end in time")
	}
	return invalid("body: %v", err)
}

// restCall is a call with what REST alone has: which outputs go back as binary tensors.
type restCall struct {
	call
	binary    bool            // all that were not asked for by name
	binaryFor map[string]bool // those that were
}

// restRequest is the JSON of a request.
type restRequest struct {
	ID         string         `json:"id"`
	Parameters map[string]any `json:"parameters"`
	Inputs     []struct {
		Name       string          `json:"name"`
		Datatype   string          `json:"datatype"`
		Shape      []int64         `json:"shape"`
		Parameters map[string]any  `json:"parameters"`
		Data       json.RawMessage `json:"data"`
	} `json:"inputs"`
	Outputs []struct {
		Name       string         `json:"name"`
		Parameters map[string]any `json:"parameters"`
	} `json:"outputs"`
}

// restCall reads a body; length is what the header says of its JSON, or empty.
func (s *Server) restCall(body []byte, length string) (*restCall, error) {
	head, tail := body, []byte(nil)
	if length != "" {
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(body) {
			return nil, invalid("header %s: %q, must be a length within the body of %d bytes", jsonLength, clip(length), len(body))
		}
		head, tail = body[:n], body[n:]
	}
	var ask restRequest
	if err := json.Unmarshal(head, &ask); err != nil {
		return nil, invalid("body: %s", clip(err.Error()))
	}
	c := &restCall{call: call{id: ask.ID}, binaryFor: map[string]bool{}}
	for name, value := range ask.Parameters {
		if name == "binary_data_output" {
			var ok bool
			if c.binary, ok = value.(bool); !ok {
				return nil, invalid("parameter %q: %s, must be true or false", name, clip(fmt.Sprint(value)))
			}
			continue
		}
		if err := s.set(&c.parameters, name, value); err != nil {
			return nil, err
		}
	}
	for _, o := range ask.Outputs {
		isBinary := c.binary
		for name, value := range o.Parameters {
			var ok bool
			if isBinary, ok = value.(bool); !ok || name != "binary_data" {
				return nil, invalid("output %q: parameter %q: %s, must be binary_data with true or false", clip(o.Name), clip(name), clip(fmt.Sprint(value)))
			}
		}
		c.outputs = append(c.outputs, o.Name)
		c.binaryFor[o.Name] = isBinary
	}
	if len(ask.Inputs) != 1 {
		return nil, invalid("%d inputs, must be one: bitboards, planes or moves", len(ask.Inputs))
	}
	in := &ask.Inputs[0]
	c.input = tensor{name: in.Name, datatype: in.Datatype, shape: in.Shape}
	size := -1
	for name, value := range in.Parameters {
		n, ok := value.(float64)
		if size = int(n); name != "binary_data_size" || !ok || float64(size) != n || size < 0 {
			return nil, invalid("input %q: parameter %q: %s, must be binary_data_size with a number of bytes", clip(in.Name), clip(name), clip(fmt.Sprint(value)))
		}
	}
	if size < 0 {
		if len(tail) > 0 {
			return nil, invalid("input %q: %d bytes follow the JSON, but it has no binary_data_size", clip(in.Name), len(tail))
		}
		return c, c.input.fromJSON(in.Data)
	}
	if in.Data != nil || size != len(tail) {
		return nil, invalid("input %q: binary_data_size %d: %d bytes follow the JSON, and there must be no data in it", clip(in.Name), size, len(tail))
	}
	c.input.raw = tail
	return c, nil
}

// fromJSON makes raw of the values in a JSON list, nested or flat.
func (t *tensor) fromJSON(data json.RawMessage) error {
	if data == nil {
		return invalid("input %q: neither data nor a binary tensor", clip(t.name))
	}
	n, err := t.values(len(data)) // each value takes a byte or more
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	count := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return invalid("input %q: data: %v", clip(t.name), err)
		}
		if _, ok := token.(json.Delim); ok {
			continue
		}
		if err := t.appendJSON(token); err != nil {
			return err
		}
		count++
	}
	if count != n {
		return invalid("input %q: data has %d values, shape %s wants %d", clip(t.name), count, shapeText(t.shape), n)
	}
	return nil
}

func (t *tensor) appendJSON(token json.Token) error {
	number, isNumber := token.(json.Number)
	switch text, isText := token.(string); {
	case t.datatype == bytesType && isText:
		t.raw = appendBytes(t.raw, text)
		return nil
	case t.datatype == uint64Type && isNumber:
		if x, err := strconv.ParseUint(number.String(), 10, 64); err == nil {
			t.raw = binary.LittleEndian.AppendUint64(t.raw, x)
			return nil
		}
	case t.datatype == floatType && isNumber:
		if x, err := strconv.ParseFloat(number.String(), 32); err == nil {
			t.raw = binary.LittleEndian.AppendUint32(t.raw, math.Float32bits(float32(x)))
			return nil
		}
	case inputTypes[t.name] != t.datatype: // its own check says what it must be
		return nil
	}
	return invalid("input %q: data: %v is no value of %s", clip(t.name), clip(fmt.Sprint(token)), clip(t.datatype))
}

// rest is the answer as REST has it: the JSON, and behind it the tensors that go back as they are; nil where none does.
func (a *answer) rest(c *restCall) (head, tail []byte, err error) {
	b := make([]byte, 0, 1<<10)
	b = append(b, `{"model_name":`...)
	b = appendString(b, a.model)
	b = append(b, `,"model_version":`...)
	b = appendString(b, a.version)
	if c.id != "" {
		b = append(b, `,"id":`...)
		b = appendString(b, c.id)
	}
	b = append(b, `,"outputs":[`...)
	for i := range a.outputs {
		o := &a.outputs[i]
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
		b = append(b, `"data":[`...)
		if b, err = appendValues(b, o); err != nil {
			return nil, nil, err
		}
		b = append(b, "]}"...)
	}
	return append(b, "]}"...), tail, nil
}

// appendValues writes a tensor's values as JSON.
func appendValues(b []byte, t *tensor) ([]byte, error) {
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
		case uint8Type:
			b = strconv.AppendUint(b, uint64(raw[0]), 10)
			raw = raw[1:]
		case bytesType:
			value, rest, ok := cutBytes(raw)
			if !ok {
				return nil, status.Errorf(codes.Internal, "output %s is damaged", t.name)
			}
			b, raw = appendString(b, string(value)), rest
		}
	}
	return b, nil
}

// appendString writes a JSON string.
func appendString(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a form
	}
	return append(b, text...)
}
