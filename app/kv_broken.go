package main

import "net/http"

// broken answers for a route whose engine could not be set up.
type broken struct{ err error }

func (b broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, b.err }
