import { render } from "preact";
import { App } from "./app/app.tsx";
import "./console.css";

const place = document.getElementById("app");
if (place === null) throw new Error("index.html has no #app");
render(<App />, place);
