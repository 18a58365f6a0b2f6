/* Search without a server. A browser starts no worker for a page that was opened from the disk; there, a hidden frame
   takes the worker's place: its messages go to this page, and this page's messages to it. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.title = "search"
      this.loaded = new Promise((resolve) => {
        const begin = () => {
          document.body.append(this.frame)
          const inside = this.frame.contentWindow
          inside.document.open()
          inside.document.write(
            "<!doctype html><script>" +
              "postMessage = (data) => parent.postMessage(data, '*');" +
              "importScripts = (...files) => files.reduce((before, file) => before.then(() => new Promise((done, fail) => {" +
              "const script = document.createElement('script');" +
              "Object.assign(script, {src: file, onload: done, onerror: fail}); document.body.append(script)" +
              "})), Promise.resolve())" +
              "<\/script><body><script src='" + address + "'><\/script>"
          )
          inside.document.close()
          inside.addEventListener("load", resolve)
        }
        document.body ? begin() : addEventListener("DOMContentLoaded", begin)
      })
      addEventListener("message", (event) => {
        if (event.source !== this.frame.contentWindow) return
        const message = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(message)
        if (this.onmessage) this.onmessage(message)
      })
    }

    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker
}
