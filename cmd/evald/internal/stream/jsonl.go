package stream

import (
	"encoding/json"
	"io"
	"strconv"
)

// JSONL writes one JSON object per line:
//
//	{"line":1,"position":"44554","to_move":2,"wdl":[..],"value":..,"policy":[..],"best":4,"source":"cpu","model":".."}
//	{"line":7,"error":".."}
//
// best counts from 1 and is null if the game is over.
type JSONL struct{ W io.Writer }

// Encode implements Format.
func (f JSONL) Encode(c *Chunk) { c.encode(appendJSON) }

// Write implements Format.
func (f JSONL) Write(c *Chunk) error {
	_, err := f.W.Write(c.Text)
	return err
}

// Close implements Format. It does nothing.
func (f JSONL) Close(Summary) error { return nil }

func appendJSON(b []byte, a *Answer) []byte {
	b = strconv.AppendInt(append(b, `{"line":`...), int64(a.Number), 10)
	if a.Err != nil {
		b = appendString(append(b, `,"error":`...), a.Err.Error())
		return append(b, "}\n"...)
	}
	b = appendString(append(b, `,"position":`...), a.Text)
	b = strconv.AppendInt(append(b, `,"to_move":`...), int64(a.State.Mark), 10)
	b = appendFloats(append(b, `,"wdl":`...), a.WDL())
	b = appendFloat(append(b, `,"value":`...), a.Value())
	b = appendFloats(append(b, `,"policy":`...), a.Policy())
	b = append(b, `,"best":`...)
	if best := a.Best(); best > 0 {
		b = strconv.AppendInt(b, int64(best), 10)
	} else {
		b = append(b, "null"...)
	}
	b = append(append(b, `,"source":"`...), a.Source().String()...)
	b = appendString(append(b, `","model":`...), a.Model())
	return append(b, "}\n"...)
}

func appendFloats(b []byte, x []float32) []byte {
	b = append(b, '[')
	for i, v := range x {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendFloat(b, v)
	}
	return append(b, ']')
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // strings always marshal
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
