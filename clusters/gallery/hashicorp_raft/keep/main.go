// Keep is a small store of registers and lists on hashicorp/raft: what the tutorial tests, and a system of the gallery.
//
// Nothing in it knows of Dethrone but the function tell: it prints one JSON line for each step of an election, and is
// called from thin wrappers around the library's own interfaces (its stores and its transport), at the moment at which
// the step becomes true for others: a vote when it is stored and before it is answered, an election before the first
// entry of the new leader leaves.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	boltdb "github.com/hashicorp/raft-boltdb/v2"
)

const peerPort, httpPort = ":7000", ":8000"

// catchUp bounds how long a transfer is tried.
const catchUp = 12 * time.Second

// --- trace lines ----------------------------------------------------------------------------------------------------

var (
	telling sync.Mutex
	names   = map[string]string{} // a member's address → its name
	node    atomic.Pointer[raft.Raft]
)

type fields map[string]any

// tell prints one trace line. The lock keeps lines in the order of what they tell.
func tell(event string, more fields) {
	telling.Lock()
	defer telling.Unlock()
	more["dethrone"], more["event"] = 1, event
	if r := node.Load(); event == "committed" && r != nil {
		more["term"] = r.CurrentTerm() // read under the lock: the terms of such lines never fall
	}
	line, err := json.Marshal(more)
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout.Write(append(line, '\n'))
}

// votes is the library's store of term and vote.
type votes struct {
	raft.StableStore
	term uint64 // of the vote that is being stored
}

func (v *votes) SetUint64(key []byte, value uint64) error {
	err := v.StableStore.SetUint64(key, value)
	switch string(key) {
	case "CurrentTerm":
		if err == nil && value > 0 {
			tell("term_changed", fields{"term": value})
		}
	case "LastVoteTerm":
		v.term = value
	}
	return err
}

func (v *votes) Set(key, value []byte) error {
	err := v.StableStore.Set(key, value)
	if err == nil && string(key) == "LastVoteCand" {
		tell("vote_granted", fields{"term": v.term, "candidate": names[string(value)]})
	}
	return err
}

// recovered tells what a new process finds stored.
func (v *votes) recovered() {
	term, _ := v.StableStore.GetUint64([]byte("CurrentTerm"))
	voted, _ := v.StableStore.GetUint64([]byte("LastVoteTerm"))
	candidate, _ := v.StableStore.Get([]byte("LastVoteCand"))
	found := fields{"term": term, "voted_for": nil}
	if term == 0 {
		found["file"] = "absent"
	} else if voted == term {
		found["voted_for"] = names[string(candidate)]
	}
	tell("recovered", found)
}

// entries is the library's store of the log.
type entries struct {
	raft.LogStore
	voters *electorate
}

func (e *entries) StoreLog(entry *raft.Log) error { return e.StoreLogs([]*raft.Log{entry}) }

func (e *entries) StoreLogs(stored []*raft.Log) error {
	first := stored[0]
	if r := node.Load(); first.Type == raft.LogNoop && r != nil && r.State() == raft.Leader {
		tell("elected", fields{"term": first.Term, "voters": e.voters.of(first.Term)}) // a leader's first entry
	}
	if err := e.LogStore.StoreLogs(stored); err != nil {
		return err
	}
	var rows [][3]any
	for _, entry := range stored {
		sum := sha256.Sum256(append([]byte{byte(entry.Type)}, entry.Data...))
		rows = append(rows, [3]any{entry.Index, entry.Term, hex.EncodeToString(sum[:8])})
	}
	tell("appended", fields{"entries": rows})
	return nil
}

func (e *entries) DeleteRange(low, high uint64) error {
	last, _ := e.LastIndex()
	if err := e.LogStore.DeleteRange(low, high); err != nil {
		return err
	}
	if high >= last { // not the compaction of old entries
		tell("truncated", fields{"from": low})
	}
	return nil
}

// electorate is the library's transport; it remembers who granted this node a vote.
type electorate struct {
	*raft.NetworkTransport
	own     string
	lock    sync.Mutex
	granted map[uint64]map[string]bool
}

func (e *electorate) RequestVote(id raft.ServerID, to raft.ServerAddress, ask *raft.RequestVoteRequest,
	answer *raft.RequestVoteResponse) error {
	err := e.NetworkTransport.RequestVote(id, to, ask, answer)
	if err == nil && answer.Granted {
		e.lock.Lock()
		defer e.lock.Unlock()
		if e.granted[ask.Term] == nil {
			e.granted[ask.Term] = map[string]bool{}
		}
		e.granted[ask.Term][string(id)] = true
	}
	return err
}

func (e *electorate) of(term uint64) []string {
	e.lock.Lock()
	defer e.lock.Unlock()
	out := []string{e.own}
	for id := range e.granted[term] {
		out = append(out, id)
	}
	return out
}

// --- the store ------------------------------------------------------------------------------------------------------

type command struct {
	Op    string          `json:"op"`
	Key   string          `json:"key"`
	Old   json.RawMessage `json:"old"`
	Value json.RawMessage `json:"value"`
}

type store struct {
	lock  sync.Mutex
	held  map[string]json.RawMessage
	lists map[string][]json.RawMessage
}

func (r *store) Apply(entry *raft.Log) any { return r.ApplyBatch([]*raft.Log{entry})[0] }

func (r *store) ApplyBatch(batch []*raft.Log) []any {
	tell("committed", fields{"index": batch[len(batch)-1].Index})
	out := make([]any, len(batch))
	for i, entry := range batch {
		if entry.Type == raft.LogCommand {
			out[i] = r.apply(entry)
		}
	}
	return out
}

func (r *store) apply(entry *raft.Log) any {
	var c command
	if err := json.Unmarshal(entry.Data, &c); err != nil {
		return err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	held, there := r.held[c.Key]
	if !there {
		held = json.RawMessage("null")
	}
	switch c.Op {
	case "put":
		r.held[c.Key] = c.Value
		return c.Value
	case "cas":
		same := bytes.Equal(held, c.Old)
		if same {
			r.held[c.Key] = c.Value
		}
		return same
	case "append":
		r.lists[c.Key] = append(r.lists[c.Key], c.Value)
		return fields{"index": entry.Index, "term": entry.Term}
	case "read":
		return append([]json.RawMessage{}, r.lists[c.Key]...)
	default:
		return held
	}
}

func (r *store) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("no snapshots here") }
func (r *store) Restore(io.ReadCloser) error         { return errors.New("no snapshots here") }

// --- HTTP -----------------------------------------------------------------------------------------------------------

func status(answer http.ResponseWriter, _ *http.Request) {
	r := node.Load()
	for {
		term := r.CurrentTerm()
		role := r.State().String()
		_, leader := r.LeaderWithID()
		if r.CurrentTerm() == term { // else role and term may be of two moments
			reply(answer, fields{"role": role, "term": term, "leader": leader, "commit": r.CommitIndex(),
				"incarnation": os.Getenv("DETHRONE_INCARNATION")})
			return
		}
	}
}

var ops = map[string]string{ // a method and what a path begins with → the operation
	"PUT /kv/": "put", "POST /kv/": "cas", "GET /kv/": "get", "POST /list/": "append", "GET /list/": "read",
}

func operation(answer http.ResponseWriter, ask *http.Request) {
	place := strings.LastIndex(ask.URL.Path, "/") + 1
	c := command{Op: ops[ask.Method+" "+ask.URL.Path[:place]], Key: ask.URL.Path[place:]}
	body, err := io.ReadAll(ask.Body)
	switch c.Op {
	case "put", "append":
		c.Value = body
	case "cas":
		err = errors.Join(err, json.Unmarshal(body, &c))
	}
	data, wrong := json.Marshal(c)
	if err != nil || wrong != nil || c.Op == "" {
		http.Error(answer, "bad request", http.StatusBadRequest)
		return
	}
	future := node.Load().Apply(data, 2*time.Second) // reads, too, go through the log
	if err := future.Error(); errors.Is(err, raft.ErrNotLeader) {
		http.Error(answer, err.Error(), http.StatusMisdirectedRequest) // certainly not done
	} else if err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError) // done or not: nobody knows
	} else {
		reply(answer, future.Response())
	}
}

// transfer hands leadership over to the member that the path names. The library gives up after an election timeout, but
// offers entries to a member that was down only after up to 10.24 s: it is asked again, as an operator would.
func transfer(answer http.ResponseWriter, ask *http.Request) {
	r, name := node.Load(), strings.TrimPrefix(ask.URL.Path, "/leader/")
	for address, known := range names {
		if known != name {
			continue
		}
		move := func() error {
			return r.LeadershipTransferToServer(raft.ServerID(name), raft.ServerAddress(address)).Error()
		}
		err := move()
		for until := time.Now().Add(catchUp); err != nil && r.State() == raft.Leader && time.Now().Before(until); err = move() {
			time.Sleep(100 * time.Millisecond)
		}
		if errors.Is(err, raft.ErrNotLeader) {
			http.Error(answer, err.Error(), http.StatusMisdirectedRequest)
		} else if err != nil {
			http.Error(answer, err.Error(), http.StatusInternalServerError) // the target may still campaign
		} else {
			reply(answer, fields{"leader": name})
		}
		return
	}
	http.Error(answer, "no such member", http.StatusConflict)
}

// change lists the members of the configuration in force; DELETE and PUT remove and add the one that the path names.
func change(answer http.ResponseWriter, ask *http.Request) {
	r, name := node.Load(), strings.TrimPrefix(ask.URL.Path, "/members/")
	var err error
	switch ask.Method {
	case "DELETE":
		err = r.RemoveServer(raft.ServerID(name), 0, 2*time.Second).Error()
	case "PUT":
		for address, known := range names {
			if known == name {
				err = r.AddVoter(raft.ServerID(name), raft.ServerAddress(address), 0, 2*time.Second).Error()
			}
		}
	}
	found := r.GetConfiguration()
	if err = errors.Join(err, found.Error()); err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	voters := []raft.ServerID{}
	for _, member := range found.Configuration().Servers {
		if member.Suffrage == raft.Voter {
			voters = append(voters, member.ID)
		}
	}
	reply(answer, voters)
}

func reply(answer http.ResponseWriter, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	answer.Header().Set("Content-Type", "application/json")
	answer.Write(body)
}

// --- start ----------------------------------------------------------------------------------------------------------

func main() {
	id := flag.String("id", "", "name of this node")
	peers := flag.String("peers", "", "all members: n1=address,n2=address")
	data := flag.String("data", ".", "directory of the stores")
	timeout := flag.Duration("timeout", time.Second, "of heartbeats and elections; a leader's lease is half of it")
	preVote := flag.Bool("pre-vote", true, "ask for votes before the term rises")
	forget := flag.Bool("forget", false, "keep term and vote in memory only: UNSAFE, to see it found")
	flag.Parse()

	var members []raft.Server
	address := ""
	for _, member := range strings.Split(*peers, ",") {
		name, host, _ := strings.Cut(member, "=")
		names[host+peerPort] = name
		members = append(members, raft.Server{ID: raft.ServerID(name), Address: raft.ServerAddress(host + peerPort)})
		if name == *id {
			address = host
		}
	}

	must(os.MkdirAll(*data, 0o755))
	disk, err := boltdb.NewBoltStore(filepath.Join(*data, "raft.db"))
	must(err)
	var stable raft.StableStore = disk
	if *forget {
		stable = raft.NewInmemStore()
	}
	kept := &votes{StableStore: stable}
	kept.recovered()
	transport, err := raft.NewTCPTransport(address+peerPort, nil, 3, 500*time.Millisecond, os.Stderr)
	must(err)
	voters := &electorate{NetworkTransport: transport, own: *id, granted: map[uint64]map[string]bool{}}
	logs := &entries{LogStore: disk, voters: voters}

	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(*id)
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = *timeout, *timeout, *timeout/2
	config.PreVoteDisabled = !*preVote
	config.SnapshotThreshold, config.SnapshotInterval = 1<<40, 24*time.Hour
	config.LogLevel = "WARN"
	leads := make(chan bool)
	config.NotifyCh = leads
	go func() {
		for leading := range leads {
			if !leading {
				tell("stepped_down", fields{})
			}
		}
	}()

	snapshots := raft.NewInmemSnapshotStore()
	if last, err := disk.LastIndex(); err == nil && last == 0 {
		must(raft.BootstrapCluster(config, logs, kept, snapshots, voters, raft.Configuration{Servers: members}))
	}
	machine := &store{held: map[string]json.RawMessage{}, lists: map[string][]json.RawMessage{}}
	r, err := raft.NewRaft(config, machine, logs, kept, snapshots, voters)
	must(err)
	node.Store(r)
	http.HandleFunc("/status", status)
	http.HandleFunc("/kv/", operation)
	http.HandleFunc("/list/", operation)
	http.HandleFunc("/leader/", transfer)
	http.HandleFunc("/members/", change)
	must(http.ListenAndServe(address+httpPort, nil))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
