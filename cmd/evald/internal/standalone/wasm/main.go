//go:build js && wasm

// Wasm is the program of package standalone for a web worker (internal/web/page/worker.js). It
// calls evaldReady with two functions, ask(id, name, json) and cancel(id), and answers by
// evaldAnswer(id, json, status): status is 0 for an object that others follow, 200 for the last
// one, and otherwise that of a refusal.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall/js"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/cmd/evald/internal/standalone"
)

func main() {
	engine, err := standalone.New(fetched)
	if err != nil {
		js.Global().Call("evaldFailed", err.Error())
		return
	}
	cancels := map[int]context.CancelFunc{}
	ask := js.FuncOf(func(_ js.Value, args []js.Value) any {
		id, name, body := args[0].Int(), args[1].String(), args[2].String()
		ctx, cancel := context.WithCancel(context.Background())
		cancels[id] = cancel
		go func() {
			defer delete(cancels, id)
			defer cancel()
			reply(ctx, engine, id, name, body)
		}()
		return nil
	})
	cancel := js.FuncOf(func(_ js.Value, args []js.Value) any {
		if stop, ok := cancels[args[0].Int()]; ok {
			stop()
		}
		return nil
	})
	js.Global().Call("evaldReady", ask, cancel)
	select {}
}

// reply answers a question. A question that was cancelled gets no answer.
func reply(ctx context.Context, engine *answer.Answerer, id int, name, body string) {
	send := func(x any, status int) error {
		text, err := json.Marshal(x)
		if err == nil && ctx.Err() == nil {
			js.Global().Call("evaldAnswer", id, string(text), status)
		}
		return err
	}
	last, err := engine.Ask(ctx, name, []byte(body), func(x any) error { return send(x, 0) })
	if err != nil {
		refused := answer.Describe(err)
		_ = send(refused, refused.Status) // a Refusal always marshals
		return
	}
	if err := send(last, 200); err != nil {
		_ = send(answer.Describe(err), answer.Internal)
	}
}

// fetched returns the file of a network, which evaldFetch(name) promises as a Uint8Array.
func fetched(name string) ([]byte, error) {
	type result struct {
		bytes []byte
		err   error
	}
	done := make(chan result, 1)
	then := js.FuncOf(func(_ js.Value, args []js.Value) any {
		bytes := make([]byte, args[0].Length())
		js.CopyBytesToGo(bytes, args[0])
		done <- result{bytes: bytes}
		return nil
	})
	defer then.Release()
	wrong := js.FuncOf(func(_ js.Value, args []js.Value) any {
		done <- result{err: fmt.Errorf("%s", args[0].Get("message").String())}
		return nil
	})
	defer wrong.Release()
	js.Global().Call("evaldFetch", name).Call("then", then, wrong)
	r := <-done
	return r.bytes, r.err
}
