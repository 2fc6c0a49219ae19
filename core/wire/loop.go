package wire

// Looper is a codec whose replies can hold the tool loop: calls of our own
// tools are answered in further rounds that the client takes for one reply.
type Looper interface {
	// Loop starts reading the first round of a reply; stream says whether it is
	// an event stream. Requests for several choices must not come here.
	Loop(stream bool, o LoopOptions) Loop
}

// LoopOptions say what is ours in a reply.
type LoopOptions struct {
	// Own are the names of our tools as this session offers them.
	Own []string
	// Note is the text of a reply in which nothing else would be left for the
	// client to see.
	Note string
	// HideUsage keeps the usage chunk of a chat stream from a client that did
	// not ask for it, when we did.
	HideUsage bool
}

// Call is one call of a tool of ours.
type Call struct {
	ID, Name string
	// Args are the arguments as the model wrote them: not always JSON.
	Args []byte
}

// Round is what one upstream reply came to.
type Round struct {
	// Own are our calls in their order; a call that was cut off is none.
	Own []Call
	// Client counts the client's calls. They have been forwarded.
	Client int
	// Element is the assistant element as the model made it, our calls and all
	// reasoning included, to be sent back to it and kept for later turns. Calls
	// whose arguments are not JSON stand there with empty ones. Nil when nothing
	// came that can be sent back.
	Element []byte
	// Info is this round's alone: counts are not summed up.
	Info ReplyInfo
	// Cut says that the reply ended before its terminal event.
	Cut bool
}

// Loop turns the replies of one or more rounds into one reply. It is fed
// decoded bytes and never waits; the bytes it returns are only valid until the
// next call other than Reply. The order of calls is (Feed* Close Next)* Feed*
// Close [Finish | Fail]; Say and Ping may be called at any time before the end.
// A round that was cut ends the reply.
//
// A round without calls of ours leaves nothing to be done after Close. As long
// as there was none at all, what comes out are the very bytes that came in.
// Event streams leave in whole events, so anything may be written in between.
type Loop interface {
	// Feed takes the next bytes of the round and returns the client's.
	Feed(p []byte) []byte
	// Close ends the round: its body has ended, or broken off. The bytes go to
	// the client: after the first round they are the end of the reply, so that
	// the rounds can be stored before the client goes on. If the round has calls
	// of ours, the end is held until Next, Finish or Fail.
	Close() ([]byte, Round)
	// Next begins another round.
	Next()
	// Finish ends the reply after a round with calls of ours that gets no other
	// one: the client's calls are next, or it may not go on. Without calls of the
	// client's the reply then ends as one that reached its length.
	Finish() []byte
	// Fail ends the reply with an error of the wire's own form. Of a reply that
	// is not streamed it is the whole body.
	Fail(kind, message string) []byte
	// Say adds text to the reply. It comes out at the end when the reply is not
	// streamed, or while a block of the model's is open.
	Say(text string) []byte
	// Ping keeps a client waiting; nil when the reply is not streamed.
	Ping() []byte
	// Reply is the assistant element the client has with all bytes returned so
	// far, as it will send it back: without our calls, the rounds run together.
	// Finish may add to it. Nil when it has nothing.
	Reply() []byte
}
