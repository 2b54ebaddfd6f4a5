// A project has its own workflows: those of the directory in which the page was opened, or of another one that is chosen.

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1200, height: 820 } });
  const page = await open(context, given.url);
  const library = async () => {
    await page.getByRole("link", { name: "Workflows" }).click();
    await page.getByRole("heading", { name: "Workflows" }).waitFor();
  };
  const project = page.getByLabel("Project");

  // Opened in the home directory: the person's own library.
  await library();
  await page.getByText("No workflow is saved in your library").waitFor();
  assert.equal(await project.isVisible(), false, "no project is known");

  // Opened in a project, by a browser that is logged in.
  // Any page may lead to such an address, so it is asked for a project that the browser does not know.
  const { url } = await tell("opens");
  const ask = page.getByRole("dialog", { name: "Show another project?" });
  await page.goto(url.replace(/ticket=[^&]*/, "ticket=forged"));
  await ask.getByText(given.shop).waitFor();
  await ask.getByRole("button", { name: "Stay here" }).click();
  await library();
  await page.getByText("No workflow is saved in your library").waitFor();
  await page.goto(url);
  await ask.getByText(given.shop).waitFor();
  await isAccessible(page);
  await shot(page, "project-question");
  await ask.getByRole("button", { name: "Show it" }).click();
  await library();
  await page.getByRole("link", { name: "count" }).waitFor();
  assert.equal(await project.inputValue(), given.shop);
  await isAccessible(page);
  await shot(page, "project");
  await page.getByRole("link", { name: "count" }).click();
  await page.getByLabel("FOLDER").fill(".");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("completed", { exact: true }).waitFor();

  // Another one is chosen, and stays over a reload. A terminal begins in its directory.
  await library();
  await project.selectOption("");
  await page.getByText("No workflow is saved in your library").waitFor();
  await page.reload();
  await page.getByText("No workflow is saved in your library").waitFor();
  await project.selectOption(given.shop);
  await page.getByRole("link", { name: "count" }).waitFor();
  await page.getByRole("link", { name: "Terminals" }).click();
  await page.getByRole("button", { name: "Open a terminal" }).click();
  await page.getByText(given.shop).first().waitFor();

  // A project that is gone is named, and everything else goes on.
  await tell("removes");
  await library();
  await page.getByText("is not a directory; choose another one").waitFor();
  await page.getByRole("link", { name: "Terminals" }).click();
  await page.getByRole("link", { name: /bash|sh/ }).first().waitFor();
  isClean(page);
});
