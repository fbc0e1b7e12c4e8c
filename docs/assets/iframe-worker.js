// Lets the site's search run in pages that were opened as files, where browsers refuse workers: a
// hidden frame runs the worker's script and passes messages in both directions.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      const inside = frame.contentWindow
      const waiting = []
      const send = (data) => inside.dispatchEvent(new inside.MessageEvent("message", {data}))
      this.postMessage = (data) => waiting.push(data)
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}))
      const load = (address) =>
        new Promise((done) => {
          const script = inside.document.createElement("script")
          script.src = address
          script.onload = done
          inside.document.body.appendChild(script)
        })
      inside.importScripts = (...addresses) => Promise.all(addresses.map(load))
      load(new URL(url, document.baseURI).href).then(() => {
        this.postMessage = send
        waiting.forEach(send)
      })
    }

    terminate() {}
  }
}
