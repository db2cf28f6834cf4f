// Judges one JSON-lines history of a register with Porcupine and prints one JSON object: for comparison only.
//
//	porcupine-bench FILE SECONDS
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

type row struct {
	F       string          `json:"f"`
	Process int             `json:"process"`
	Value   json.RawMessage `json:"value"`
	Output  *int            `json:"output"`
	Call    int64           `json:"call"`
	Ret     *int64          `json:"ret"`
	Status  string          `json:"status"`
}

type input struct {
	kind     int // 0 read, 1 write, 2 cas
	from, to int
}

type output struct {
	value   int
	unknown bool
}

const unset = math.MinInt

var model = porcupine.Model{
	Init: func() interface{} { return unset },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		now, ask, answer := state.(int), in.(input), out.(output)
		switch ask.kind {
		case 0:
			return answer.unknown || answer.value == now, now
		case 1:
			return true, ask.to
		}
		if now == ask.from {
			return true, ask.to
		}
		return answer.unknown, now
	},
}

func cpu() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	if err != nil {
		panic(err)
	}
	var operations []porcupine.Operation
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var one row
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			panic(err)
		}
		if one.Status == "fail" {
			continue
		}
		ask, answer := input{}, output{value: unset, unknown: one.Status == "info"}
		switch one.F {
		case "read":
			if answer.unknown {
				continue
			}
			if one.Output != nil {
				answer.value = *one.Output
			}
		case "write":
			ask.kind = 1
			if err := json.Unmarshal(one.Value, &ask.to); err != nil {
				panic(err)
			}
		case "cas":
			var pair [2]int
			if err := json.Unmarshal(one.Value, &pair); err != nil {
				panic(err)
			}
			ask = input{2, pair[0], pair[1]}
		}
		end := int64(math.MaxInt64)
		if one.Ret != nil && !answer.unknown {
			end = *one.Ret
		}
		operations = append(operations, porcupine.Operation{ClientId: one.Process, Input: ask, Call: one.Call, Output: answer, Return: end})
	}
	began, used := time.Now(), cpu()
	// The bound is CPU time, so that a busy machine gives it as much as an idle one.
	answers := make(chan porcupine.CheckResult, 1)
	go func() { answers <- porcupine.CheckOperationsTimeout(model, operations, 0) }()
	found, waiting := porcupine.Unknown, true
	for waiting && cpu()-used < seconds {
		select {
		case found = <-answers:
			waiting = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	took, spent := time.Since(began).Seconds(), cpu()-used
	word := map[porcupine.CheckResult]string{porcupine.Ok: "pass", porcupine.Illegal: "fail", porcupine.Unknown: "unknown"}[found]
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	fmt.Printf("{\"outcome\":%q,\"check_s\":%f,\"wall_s\":%f,\"whole_s\":%f,\"peak_mb\":%f}\n", word, min(took, spent), took, cpu(), float64(usage.Maxrss)/1024)
}
