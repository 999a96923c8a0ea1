package service

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// jsonLength is the header of the binary tensor extension. It says how many bytes of the body are JSON; tensors follow them.
const jsonLength = "Inference-Header-Content-Length"

// restInfer answers POST ../infer.
func (s *Server) restInfer(w http.ResponseWriter, r *http.Request) error {
	requestOf(r.Context()).asked = time.Now()
	c, err := s.restCall(w, r)
	if err != nil {
		return err
	}
	if err := s.infer(r.Context(), c.request); err != nil {
		return err
	}
	defer c.answer.release()
	head, tail := c.encode()
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

// encode is the answer as REST has it: the JSON, and the binary tensors that follow it; nil if there are none.
func (c *restCall) encode() (head, tail []byte) {
	b := make([]byte, 0, 1<<10)
	b = append(b, `{"model_name":`...)
	b = appendString(b, c.model)
	b = append(b, `,"model_version":`...)
	b = appendString(b, c.answer.version)
	if c.id != "" {
		b = append(b, `,"id":`...)
		b = appendString(b, c.id)
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
		case uint8Type:
			b = strconv.AppendUint(b, uint64(raw[0]), 10)
			raw = raw[1:]
		case bytesType:
			value, rest, _ := cutBytes(raw) // appendBytes has written it
			b, raw = appendString(b, string(value)), rest
		}
	}
	return b
}

// appendString writes a JSON string.
func appendString(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // every string can be written
	}
	return append(b, text...)
}
